// The ranges of NVTX that are open at a moment of a recording. Used by Live. Not thread-safe. Its memory grows only
// with the open ranges.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "trace/event.hpp"

namespace ration::trace {

struct OpenRange {
  std::uint32_t process = 0, thread = 0;  ///< process and thread that began the range
  std::uint64_t number = 0;               ///< see kFirstRange
  std::uint32_t site = 0;                 ///< name of the range, in Header::sites
  std::int64_t time = 0;
  std::uint64_t order = 0;  ///< larger for each later range
};

class OpenRanges {
 public:
  /// Applies an event. The end of a range that began before the recording, or was never begun, changes nothing.
  void follow(const Event& event) {
    const bool is_of_thread = event.address < kFirstRange;
    const Key key{event.process, event.address, is_of_thread ? event.thread : 0};
    if (event.kind == Kind::kRangeBegan) {
      open_[key].push_back({event.process, event.thread, event.address, event.site, event.time, ++last_});
    } else if (event.kind == Kind::kRangeEnded) {
      const auto found = open_.find(key);
      if (found == open_.end()) return;
      found->second.pop_back();
      if (found->second.empty()) open_.erase(found);
    } else if (event.kind == Kind::kProcessEnded) {
      const auto after = [](std::uint32_t process) { return Key{process, 0, 0}; };
      const auto end = event.process + 1 == 0 ? open_.end() : open_.lower_bound(after(event.process + 1));
      open_.erase(open_.lower_bound(after(event.process)), end);
    }
  }

  /// Returns the open ranges in the order in which they began.
  [[nodiscard]] std::vector<OpenRange> all() const;

 private:
  using Key = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // process, number, thread
  std::map<Key, std::vector<OpenRange>> open_;
  std::uint64_t last_ = 0;
};

}  // namespace ration::trace
