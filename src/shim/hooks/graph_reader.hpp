// Reads the memory nodes of a graph, and what they wait for, from the driver. Used by the graph hooks.
#pragma once

#include "driver/cuda_abi.hpp"
#include "shim/hooks/graph_schedule.hpp"

namespace ration::shim {

/// Whether a node of the graph, or of a graph inside it, takes or frees memory.
[[nodiscard]] bool has_memory_nodes(cuda::CUgraph graph) noexcept;

/// Adds the nodes of the graph and of the graphs inside it. Memory of the host counts for nothing. False: what the
/// graph takes cannot be told.
[[nodiscard]] bool read_graph(cuda::CUgraph graph, GraphSchedule& out) noexcept;

}  // namespace ration::shim
