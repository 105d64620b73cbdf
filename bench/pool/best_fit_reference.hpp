// The plain reference that the pool is measured against: best fit with splitting and coalescing behind one mutex, in
// regions that double, as TensorFlow's allocator is described (semantics.md section 3). Addresses are made up: nothing
// is ever read or written there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

namespace ration::bench {

class BestFitReference {
 public:
  /// `capacity`: bytes of the device. `growth`: regions as needed; else everything at once.
  BestFitReference(std::uint64_t capacity, bool growth) : capacity_(capacity) {
    if (!growth) add_region(capacity);
  }

  /// 0: refused.
  std::uint64_t allocate(std::uint64_t size) {
    const std::lock_guard guard(mutex_);
    size = (size + 255) / 256 * 256;
    auto fit = free_.lower_bound({size, 0});
    if (fit == free_.end()) {
      if (!grow(size)) return 0;
      fit = free_.lower_bound({size, 0});
    }
    const std::uint64_t address = fit->second;
    free_.erase(fit);
    const auto chunk = chunks_.find(address);
    const std::uint64_t rest = chunk->second.size - size;
    // A chunk is split when it is twice the request, or 128 MiB too large.
    if (chunk->second.size >= 2 * size || rest >= (std::uint64_t{128} << 20)) {
      chunks_.emplace_hint(std::next(chunk), address + size, Chunk{rest, true, chunk->second.region});
      free_.emplace(rest, address + size);
      chunk->second.size = size;
    }
    chunk->second.free = false;
    return address;
  }

  void free(std::uint64_t address) {
    const std::lock_guard guard(mutex_);
    auto chunk = chunks_.find(address);
    const auto join = [&](auto left, auto right) {
      left->second.size += right->second.size;
      chunks_.erase(right);
      return left;
    };
    if (const auto next = std::next(chunk); next != chunks_.end() && next->second.free && same_region(chunk, next)) {
      free_.erase({next->second.size, next->first});
      chunk = join(chunk, next);
    }
    if (chunk != chunks_.begin()) {
      const auto before = std::prev(chunk);
      if (before->second.free && same_region(before, chunk)) {
        free_.erase({before->second.size, before->first});
        chunk = join(before, chunk);
      }
    }
    chunk->second.free = true;
    free_.emplace(chunk->second.size, chunk->first);
  }

  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  struct Chunk {
    std::uint64_t size = 0;
    bool free = true;
    int region = 0;
  };
  template <typename Iterator>
  static bool same_region(Iterator left, Iterator right) {
    return left->second.region == right->second.region;
  }

  void add_region(std::uint64_t size) {
    const std::uint64_t address = next_address_;
    next_address_ += size + (std::uint64_t{1} << 30);  // never side by side
    chunks_[address] = {size, true, regions_++};
    free_.emplace(size, address);
    taken_ += size;
  }

  bool grow(std::uint64_t size) {
    const std::uint64_t left = capacity_ - taken_;
    if (size > left) return false;
    while (next_region_ < size) next_region_ *= 2;
    std::uint64_t wanted = std::min(next_region_, left);
    if (wanted < size) wanted = size;
    next_region_ *= 2;
    add_region(wanted);
    return true;
  }

  std::mutex mutex_;
  std::uint64_t capacity_, taken_ = 0, next_region_ = std::uint64_t{2} << 20;
  std::uint64_t next_address_ = std::uint64_t{1} << 40;
  int regions_ = 0;
  std::map<std::uint64_t, Chunk> chunks_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_;
};

}  // namespace ration::bench
