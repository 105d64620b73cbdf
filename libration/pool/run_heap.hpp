// A heap of the held and free runs of units in one address range; a unit is a fixed number of bytes. Two-level
// segregated lists find the free run that suits a request in O(1), whatever the number of runs. The heap knows nothing
// of memory; zone.hpp uses it. Promises: neighbouring free runs of one stream are always one run; no run is handed out
// twice; the heap needs 4 bytes of host memory per unit that was ever touched and 32 bytes per run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pool/lazy_array.hpp"

namespace ration::pool {

/// The units [start, start + count).
struct Run {
  std::uint32_t start = 0;
  std::uint32_t count = 0;
};

/// The stream whose order a free run follows; on that stream the run may be handed out again at once.
using StreamTag = std::uint16_t;

/// A heap of runs. Not thread-safe.
class RunHeap {
 public:
  /// Makes a heap of `units` units, none of them free.
  explicit RunHeap(std::uint32_t units);
  RunHeap(const RunHeap&) = delete;
  RunHeap& operator=(const RunHeap&) = delete;

  /// Adds units that were just mapped, as free ones.
  void add(Run run, StreamTag tag);
  /// Removes `part` of the free run that starts at `start` from the heap, so that it can be unmapped; the rest stays
  /// free.
  void remove(std::uint32_t start, Run part);

  /// Hands out `count` units whose start is a multiple of `alignment` (in units), from a free run of that tag. Returns
  /// false if there is none.
  bool take(std::uint32_t count, std::uint32_t alignment, StreamTag tag, Run& out);
  /// Returns the held run that starts at `unit`, or a run with count 0 if there is none.
  [[nodiscard]] Run held(std::uint32_t unit) const noexcept;
  /// Frees the held run at `unit` in that stream's order.
  void release(std::uint32_t unit, StreamTag tag);

  /// Gives every free run of tag `from` the tag `to`. The caller has ordered the streams.
  void retag(StreamTag from, StreamTag to);
  [[nodiscard]] std::uint32_t free_units(StreamTag tag) const noexcept;
  [[nodiscard]] std::uint32_t free_units() const noexcept { return free_units_; }
  [[nodiscard]] std::uint32_t largest_free() const noexcept;

  /// Returns the free run of that tag that ends just before `unit`, or that starts at `unit`; its count is 0 if there
  /// is none.
  [[nodiscard]] Run free_before(std::uint32_t unit, StreamTag tag) const noexcept;
  [[nodiscard]] Run free_at(std::uint32_t unit, StreamTag tag) const noexcept;

  /// Calls `visit(Run, tag)` for every free run, in any order. `visit` must not change the heap.
  template <typename Visit>
  void each_free(Visit&& visit) const {
    for (const Node& node : nodes_) {
      if (node.state == State::kFree) visit(Run{node.start, node.count}, node.tag);
    }
  }
  /// Calls `visit(Run)` for every held run, in any order.
  template <typename Visit>
  void each_held(Visit&& visit) const {
    for (const Node& node : nodes_) {
      if (node.state == State::kHeld) visit(Run{node.start, node.count});
    }
  }

  [[nodiscard]] std::size_t host_bytes() const noexcept { return nodes_.capacity() * sizeof(Node); }

 private:
  enum class State : std::uint8_t { kUnused, kFree, kHeld };
  static constexpr std::uint32_t kNone = 0;  // node 0 is never used

  struct Node {
    std::uint32_t start = 0, count = 0;
    std::uint32_t previous = kNone, next = kNone;  // its list of free runs; `next` also links unused nodes
    StreamTag tag = 0;
    State state = State::kUnused;
    std::uint8_t first = 0, second = 0;  // its list, while it is free
  };

  // The classes of the lists: powers of two, each divided into thirty-two.
  static constexpr int kSecondBits = 5;
  static constexpr int kFirst = 32;
  static constexpr int kSecond = 1 << kSecondBits;
  struct Bins {
    std::uint32_t first_map = 0;
    std::uint32_t second_map[kFirst] = {};
    std::uint32_t head[kFirst][kSecond] = {};
    std::uint32_t units = 0;
  };
  struct Bin {
    std::uint8_t first, second;
    bool operator==(const Bin&) const = default;
  };

  static Bin bin_of(std::uint32_t count) noexcept;
  std::uint32_t new_node(Run run, State state, StreamTag tag);
  void drop_node(std::uint32_t index) noexcept;
  void mark_ends(std::uint32_t index) noexcept;
  void link(std::uint32_t index) noexcept;
  void unlink(std::uint32_t index) noexcept;
  std::uint32_t suitable(const Bins& bins, std::uint32_t count, std::uint32_t alignment) const noexcept;
  bool fits(std::uint32_t index, std::uint32_t count, std::uint32_t alignment) const noexcept;
  void make_bins(StreamTag tag);
  [[nodiscard]] const Bins* find_bins(StreamTag tag) const noexcept {
    if (tag == 0) return &first_bins_;  // nearly always the only tag
    return tag <= other_bins_.size() ? other_bins_[tag - 1U].get() : nullptr;
  }
  [[nodiscard]] Bins* find_bins(StreamTag tag) noexcept {
    return const_cast<Bins*>(static_cast<const RunHeap*>(this)->find_bins(tag));
  }
  void link_new(Run run, StreamTag tag);
  std::uint32_t free_node_ending_at(std::uint32_t unit, StreamTag tag) const noexcept;
  std::uint32_t free_node_starting_at(std::uint32_t unit, StreamTag tag) const noexcept;
  void resize(std::uint32_t index, Run run) noexcept;
  void free_run(Run run, StreamTag tag, std::uint32_t own_node);

  std::uint32_t units_;
  LazyArray<std::uint32_t> index_memory_;  // has one more entry before the first unit's and one after the last's
  std::uint32_t* index_;  // by unit: the node of a run that starts there, or of a free run that ends there
  std::vector<Node> nodes_;
  std::uint32_t unused_ = kNone;
  Bins first_bins_;                                // of tag 0
  std::vector<std::unique_ptr<Bins>> other_bins_;  // by tag less 1
  std::uint32_t free_units_ = 0;
};

}  // namespace ration::pool
