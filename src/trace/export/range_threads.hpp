// The threads on which timelines draw ranges. A timeline has one stack of ranges per thread. Ranges of further NVTX
// domains, and ranges that any thread may end, can overlap that stack. Such ranges are
// drawn on additional threads, which no program has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "trace/event.hpp"

namespace ration::trace {

class RangeThreads {
 public:
  /// Returns the thread on which a range begins or ends; nullopt for the end of a range that has not begun.
  std::optional<std::uint32_t> thread_of(const Event& event) {
    const bool is_of_thread = event.address < kFirstRange;
    const Key key{event.process, event.address, is_of_thread ? event.thread : 0};
    const auto found = drawn_.find(key);
    if (event.kind == Kind::kRangeBegan) {
      if (found != drawn_.end()) {
        ++found->second.depth;
        return found->second.thread;
      }
      const std::uint32_t thread = event.address == 0 ? event.thread : free_thread();
      drawn_[key] = {thread, 1};
      return thread;
    }
    if (found == drawn_.end()) return std::nullopt;
    const std::uint32_t thread = found->second.thread;
    if (--found->second.depth == 0) {
      if (event.address != 0) taken_.erase(thread);
      drawn_.erase(found);
    }
    return thread;
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // process, number, thread
  struct Drawn {
    std::uint32_t thread = 0;
    std::uint64_t depth = 0;
  };
  static constexpr std::uint32_t kFirst = 1U << 30;  // beyond the numbers that the kernel gives

  /// Reserves the first of these threads that has no open range.
  std::uint32_t free_thread() {
    std::uint32_t thread = kFirst;
    for (const std::uint32_t taken : taken_) {
      if (taken != thread) break;
      ++thread;
    }
    taken_.insert(thread);
    return thread;
  }

  std::map<Key, Drawn> drawn_;
  std::set<std::uint32_t> taken_;
};

}  // namespace ration::trace
