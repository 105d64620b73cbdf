// An upper bound for the memory that a graph's allocations take together, computed from the order of its nodes alone.
// Used by the graph hooks before a launch, and by their tests.
//
// An allocation may reuse bytes of another only if it waits for the node that frees them. A driver may choose freely
// among such bytes. A driver that chooses badly needs more memory than the most that is allocated at once. The bound
// holds for every driver that takes new memory only when it has no freed bytes to reuse. When such a driver takes
// memory for an allocation A, all memory of the graph belongs to A, or to allocations whose end A does not wait for.
#pragma once

#include <cstdint>

#include "guard/hooks/mapped_array.hpp"

namespace ration::guard {

/// The schedule of one graph. Not thread-safe. The schedule uses memory from mmap only; is_whole() returns false once
/// mmap has failed.
class GraphSchedule {
 public:
  using Node = std::uint32_t;
  static constexpr Node kNever = ~Node{0};

  struct Allocation {
    std::uint64_t address = 0, bytes = 0;
    int device = 0;
    Node taken_at = 0, freed_at = kNever;  // kNever if it stays allocated after the graph has run
    std::uint64_t most =
        0;  // the bound for the allocations that may share bytes with this one; 0 if another allocation has that bound
  };

  Node add_node() noexcept { return nodes_++; }
  [[nodiscard]] Node node_count() const noexcept { return nodes_; }
  /// Makes `after` wait for `before`.
  void add_edge(Node before, Node after) noexcept;
  /// Records that node `at` takes or frees one allocation.
  void take(Node at, std::uint64_t address, std::uint64_t bytes, int device) noexcept;
  void free(Node at, std::uint64_t address) noexcept;

  /// Computes the bounds. Must be called once, after all nodes and edges.
  void settle() noexcept;

  /// Returns false if memory for the schedule itself ran out; then none of its results hold.
  [[nodiscard]] bool is_whole() const noexcept { return whole_; }
  [[nodiscard]] const MappedArray<Allocation>& allocations() const noexcept { return allocations_; }
  /// Returns the addresses that the graph frees without having taken them.
  [[nodiscard]] const MappedArray<std::uint64_t>& frees_of_others() const noexcept { return frees_of_others_; }
  /// Returns the most bytes that one run takes on the device.
  [[nodiscard]] std::uint64_t most(int device) const noexcept;

 private:
  struct Edge {
    Node before, after;
  };
  struct Free {
    Node at;
    std::uint64_t address;
  };

  void match_frees() noexcept;
  bool find_ancestors() noexcept;
  void group() noexcept;
  void measure() noexcept;
  [[nodiscard]] std::uint32_t group_of(std::uint32_t allocation) noexcept;
  [[nodiscard]] bool waits_for(Node node, std::size_t bit) const noexcept;
  [[nodiscard]] std::size_t bit_of_free(std::size_t allocation) const noexcept {
    return allocations_.size() + allocation;
  }

  bool whole_ = true;
  Node nodes_ = 0;
  MappedArray<Edge> edges_;
  MappedArray<Allocation> allocations_;  // sorted by address after settle()
  MappedArray<Free> frees_;
  MappedArray<std::uint64_t> frees_of_others_;
  std::size_t words_ = 0;                 // words per row
  MappedArray<std::uint64_t> ancestors_;  // one row per node: the allocations and frees that it waits for
  MappedArray<std::uint32_t> groups_;
};

}  // namespace ration::guard
