// The interface of the allocators that what-if tries. An allocator takes memory from a device that only accounts for
// it, and gets the steps of a recording.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.hpp"

namespace ration::trace {

/// A device under a limit. The device only counts the bytes taken.
class AccountedDevice {
 public:
  explicit AccountedDevice(Bytes limit) : limit_(limit.count()) {}

  /// Takes memory. Returns false and changes nothing if the limit does not allow it.
  [[nodiscard]] bool take(std::uint64_t bytes) noexcept {
    if (bytes > limit_ - taken_) return false;
    taken_ += bytes;
    if (taken_ > peak_) peak_ = taken_;
    return true;
  }
  void give(std::uint64_t bytes) noexcept { taken_ -= bytes; }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }
  [[nodiscard]] std::uint64_t peak() const noexcept { return peak_; }
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint64_t left() const noexcept { return limit_ - taken_; }

 private:
  std::uint64_t limit_, taken_ = 0, peak_ = 0;
};

/// The allocator of one process. Each block is a number below `blocks`, an argument of MakeAllocator.
class TriedAllocator {
 public:
  virtual ~TriedAllocator() = default;
  TriedAllocator(const TriedAllocator&) = delete;
  TriedAllocator& operator=(const TriedAllocator&) = delete;

  /// Returns false if the device denies the memory that the allocator needs.
  [[nodiscard]] virtual bool allocate(std::uint32_t block, std::uint64_t bytes, std::uint8_t stream) = 0;
  virtual void free(std::uint32_t block) = 0;

 protected:
  TriedAllocator() = default;
};

/// A function that makes an allocator. The allocator takes memory from `device`, and its destructor gives everything
/// back.
using MakeAllocator = std::function<std::unique_ptr<TriedAllocator>(AccountedDevice& device, std::uint32_t blocks)>;

}  // namespace ration::trace
