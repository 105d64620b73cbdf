// The state of a recording's workload at a moment: the charges of each place by use and process, the live blocks, and
// the open ranges. Used to sum up a recording and to describe a moment of it. Not thread-safe. Its memory grows only
// with the live blocks and the open ranges.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/event.hpp"
#include "trace/kinds.hpp"
#include "trace/open_ranges.hpp"

namespace ration::trace {

/// A place whose bytes are counted together: a device with its managed memory, or pinned host memory.
struct Place {
  bool is_host = false;
  std::uint16_t device = 0;

  [[nodiscard]] auto operator<=>(const Place&) const = default;
};
[[nodiscard]] inline Place place_of(const Event& event) {
  return event.account == Account::kPinnedHost ? Place{true, 0} : Place{false, event.device};
}

/// Memory that a program took and has not freed yet.
struct Block {
  std::uint64_t bytes = 0;
  std::int64_t time = 0;
  std::uint32_t site = 0;
  std::uint32_t span = 0;  ///< number of marks before it was taken
  Place place;
  bool is_handle = false;  ///< true for physical memory, which has a number in place of an address
};

class Live {
 public:
  /// Charged bytes of a place by process and use.
  using Uses = std::map<std::pair<std::uint32_t, Use>, std::int64_t>;

  explicit Live(const Header& header) : header_(header) {}

  /// Applies an event. Calls `freed(block)` if the event frees a block. Calls `left(process, blocks)` if the event ends
  /// a process; `blocks` are the blocks that the process never freed, by address.
  template <typename Freed, typename Left>
  void follow(const Event& event, Freed&& freed, Left&& left) {
    if (event.charged != 0) charge(event);
    switch (event.kind) {
      case Kind::kAllocate:
      case Kind::kVirtualCreate:
        if (event.address != 0) take(event, marks_);
        return;
      case Kind::kFree:
      case Kind::kVirtualRelease: {
        Blocks& blocks = blocks_[event.process];
        if (const auto found = blocks.find(event.address); found != blocks.end()) {
          freed(found->second);
          blocks.erase(found);
          --count_;
        }
        return;
      }
      case Kind::kMark:
        ++marks_;
        return;
      case Kind::kRangeBegan:
      case Kind::kRangeEnded:
        ranges_.follow(event);
        return;
      case Kind::kProcessEnded:
        ranges_.follow(event);
        if (const auto found = blocks_.find(event.process); found != blocks_.end()) {
          left(event.process, found->second);
          count_ -= found->second.size();
          blocks_.erase(found);
        }
        return;
      default:
        return;
    }
  }
  void follow(const Event& event) {
    follow(
        event, [](const Block&) {}, [](std::uint32_t, const auto&) {});
  }

  /// Returns events from which restore() rebuilds this state: the charges, then the live blocks and open ranges by
  /// time.
  [[nodiscard]] std::vector<Event> snapshot() const;
  void restore(const Event& event);

  /// Calls `visit(process, blocks)` for each process with live blocks.
  template <typename Visit>
  void each_process(Visit&& visit) const {
    for (const auto& [process, blocks] : blocks_) visit(process, blocks);
  }
  [[nodiscard]] std::int64_t held(Place place) const {
    const auto found = charges_.find(place);
    return found == charges_.end() ? 0 : found->second.held;
  }
  [[nodiscard]] Uses uses(Place place) const {
    const auto found = charges_.find(place);
    return found == charges_.end() ? Uses{} : found->second.uses;
  }
  [[nodiscard]] std::size_t blocks() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t marks() const noexcept { return marks_; }
  /// Returns the open ranges in the order in which they began.
  [[nodiscard]] std::vector<OpenRange> ranges() const { return ranges_.all(); }
  /// Returns the process and the thread of the newest charge.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> last_charged() const noexcept { return last_charged_; }

 private:
  using Blocks = std::unordered_map<std::uint64_t, Block>;
  struct Charges {
    std::int64_t held = 0;
    Uses uses;
  };

  void charge(const Event& event);
  /// Returns the use of an event's bytes. If an event frees a block and the recording does not have its allocation, the
  /// block was held before the recording began.
  [[nodiscard]] Use use_of_charge(const Event& event, const Charges& charges) const;
  void take(const Event& event, std::uint32_t span) {
    const Block block{event.bytes, event.time, event.site, span, place_of(event), event.kind == Kind::kVirtualCreate};
    count_ += blocks_[event.process].insert_or_assign(event.address, block).second ? 1 : 0;
  }

  const Header& header_;
  std::map<Place, Charges> charges_;
  std::unordered_map<std::uint32_t, Blocks> blocks_;  // by process and address
  std::size_t count_ = 0;
  std::uint32_t marks_ = 0;
  OpenRanges ranges_;
  std::pair<std::uint32_t, std::uint32_t> last_charged_;
};

}  // namespace ration::trace
