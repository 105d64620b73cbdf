// How much memory a graph's allocations may take together, by the order of its nodes alone. Used by the graph hooks
// before a launch, and by their tests.
//
// An allocation may stand on bytes of another only if it waits for the node that frees them. Which of several such
// bytes a driver picks is its own affair, and one that picks badly needs more than the most that is alive at once. So
// the bound holds for every driver that takes new memory only where no freed bytes may be used again: when it takes
// memory for an allocation, all that it has stands under that allocation or under one whose end this allocation does
// not wait for.
#pragma once

#include <cstdint>

#include "shim/hooks/mapped_array.hpp"

namespace ration::shim {

/// Not thread-safe. Memory from mmap only; where that is out, is_whole() says so.
class GraphSchedule {
 public:
  using Node = std::uint32_t;
  static constexpr Node kNever = ~Node{0};

  struct Allocation {
    std::uint64_t address = 0, bytes = 0;
    int device = 0;
    Node taken_at = 0, freed_at = kNever;  // kNever: it is left when the graph has run
    std::uint64_t most = 0;  // of the allocations that may share bytes with this one; 0: counted elsewhere
  };

  Node add_node() noexcept { return nodes_++; }
  [[nodiscard]] Node node_count() const noexcept { return nodes_; }
  /// `after` waits for `before`.
  void add_edge(Node before, Node after) noexcept;
  /// A node takes or frees one allocation.
  void take(Node at, std::uint64_t address, std::uint64_t bytes, int device) noexcept;
  void free(Node at, std::uint64_t address) noexcept;

  /// Computes the bounds. To be called once, after all nodes and edges.
  void settle() noexcept;

  /// False: memory for the schedule itself was out, and nothing that it says holds.
  [[nodiscard]] bool is_whole() const noexcept { return whole_; }
  [[nodiscard]] const MappedArray<Allocation>& allocations() const noexcept { return allocations_; }
  /// Addresses that are freed here and taken elsewhere.
  [[nodiscard]] const MappedArray<std::uint64_t>& frees_of_others() const noexcept { return frees_of_others_; }
  /// The most that one run takes on the device.
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
  MappedArray<Allocation> allocations_;  // by address once settled
  MappedArray<Free> frees_;
  MappedArray<std::uint64_t> frees_of_others_;
  std::size_t words_ = 0;                 // of one row
  MappedArray<std::uint64_t> ancestors_;  // a row for each node: the allocations and frees that it waits for
  MappedArray<std::uint32_t> groups_;
};

}  // namespace ration::shim
