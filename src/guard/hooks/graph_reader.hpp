// A reader of the memory nodes of a graph, and of their dependencies, from the driver. Used by the graph hooks.
#pragma once

#include "driver/cuda_abi.hpp"
#include "guard/hooks/graph_schedule.hpp"

namespace ration::guard {

/// Returns true if a node of the graph, or of a graph nested in it, takes or frees memory.
[[nodiscard]] bool has_memory_nodes(cuda::CUgraph graph) noexcept;

/// Adds the nodes of the graph and of its nested graphs. Host memory is not counted. Returns false if the memory that
/// the graph takes cannot be determined.
[[nodiscard]] bool read_graph(cuda::CUgraph graph, GraphSchedule& out) noexcept;

}  // namespace ration::guard
