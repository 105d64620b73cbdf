// The memory of graphs: allocations whose addresses are fixed when their node is made, and the pool of each device that
// backs them while they are live. Used by graphs, launches, capture and the functions that free memory, under
// driver().mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "driver.hpp"

namespace ration::sim {

/// The memory of one allocation node. It owns an address range, in which memory is mapped only while the allocation is
/// live.
struct GraphAllocation {
  int device = 0;
  std::uint64_t size = 0;    // the size that the program asked for
  std::uint64_t extent = 0;  // whole granules
  std::uint64_t address = 0;
  bool live = false;  // allocated by a launch and not freed since
  std::vector<std::uint32_t> granules;

  ~GraphAllocation();
};

/// Makes an allocation. Returns null if no address range is left.
std::shared_ptr<GraphAllocation> make_graph_allocation(int device, std::uint64_t size);
/// Returns the allocation that begins at `address`, live or not.
std::shared_ptr<GraphAllocation> graph_allocation_at(std::uint64_t address);

/// Takes `count` granules from the device's graph pool. If the pool has too few, it takes more from the device. Returns
/// false if the device is full.
bool take_graph_granules(int device, std::size_t count, std::vector<std::uint32_t>& out);
/// Gives granules back to the pool, which keeps them until it is trimmed.
void give_graph_granules(int device, std::vector<std::uint32_t>& granules);
/// Maps the allocation's granules at its address.
void map_graph_allocation(GraphAllocation& allocation);
void unmap_graph_allocation(GraphAllocation& allocation);
/// Gives `granules` to the allocation until it is freed.
void keep_graph_allocation(const std::shared_ptr<GraphAllocation>& allocation);

/// Gives back memory that was uploaded and never launched, for a trim. Defined in graph_launch.cpp.
void give_up_uploads(int device);

/// Frees an allocation of a graph. Returns false if no live allocation has this address.
bool free_graph_allocation(std::uint64_t address);
/// Frees what graphs still hold on a device. Called after the device's last context has ended.
void clear_graph_memory(int device);

}  // namespace ration::sim
