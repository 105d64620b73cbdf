// Graphs in the simulated driver: nodes, their dependencies, and the work that a launch does for them. Used by
// graphs.cpp (building), graph_launch.cpp (running), graph_changes.cpp and capture.cpp, under driver().mutex.
#pragma once

#include <algorithm>
#include <memory>
#include <variant>
#include <vector>

#include "driver.hpp"
#include "driver/cuda_graph_abi.hpp"
#include "graph_memory.hpp"

namespace ration::sim {

struct Graph;

/// The parameters of a node; monostate for a node without any, and for a captured kernel or host function.
using NodeParameters = std::variant<std::monostate, cuda::CUDA_KERNEL_NODE_PARAMS, cuda::CUDA_MEMSET_NODE_PARAMS,
                                    cuda::GraphCopyParams, cuda::CUDA_HOST_NODE_PARAMS>;

/// Does the work of a computing node in a launch. Called without driver().mutex, since it calls the driver.
cuda::CUresult run(const NodeParameters& parameters);

struct GraphNode {
  cuda::CUgraphNodeType type = cuda::CU_GRAPH_NODE_TYPE_EMPTY;
  Graph* graph = nullptr;
  const GraphNode* origin = nullptr;  // the original of a node in a clone
  std::vector<GraphNode*> dependencies;
  std::shared_ptr<GraphAllocation> allocation;  // the allocation of an allocation node
  cuda::CUmemPoolProps pool_properties{};
  cuda::CUdeviceptr freed = 0;  // the address of a free node
  std::shared_ptr<Graph> child;
  NodeParameters parameters;
};

struct Graph : std::enable_shared_from_this<Graph> {
  std::vector<std::unique_ptr<GraphNode>> nodes;
  int executables = 0;  // executables that exist; at most one if the graph has allocation nodes

  [[nodiscard]] bool has_memory_nodes() const;
};

/// Returns the graph behind a handle, or null if the handle is invalid.
Graph* graph_of(cuda::CUgraph handle);
inline GraphNode* node_of(cuda::CUgraphNode handle) { return reinterpret_cast<GraphNode*>(handle); }
inline cuda::CUgraph handle_of(Graph* graph) { return reinterpret_cast<cuda::CUgraph>(graph); }
inline cuda::CUgraphNode handle_of(const GraphNode* node) {
  return reinterpret_cast<cuda::CUgraphNode>(const_cast<GraphNode*>(node));
}

Graph* new_graph();
void destroy_graph(Graph* graph);

/// Adds a node of `type` after `dependencies`. Returns null if a dependency is not a node of this graph.
GraphNode* add_node(Graph* graph, cuda::CUgraphNodeType type, const std::vector<GraphNode*>& dependencies);
cuda::CUresult add_alloc_node(Graph* graph, const std::vector<GraphNode*>& dependencies,
                              cuda::CUDA_MEM_ALLOC_NODE_PARAMS& parameters, GraphNode*& out);
cuda::CUresult add_free_node(Graph* graph, const std::vector<GraphNode*>& dependencies, cuda::CUdeviceptr address,
                             GraphNode*& out);

/// A node in an executable graph, where its parameters may change and it may be disabled.
struct Step {
  const GraphNode* node = nullptr;  // the node of the instantiated graph
  cuda::CUgraphNodeType type = cuda::CU_GRAPH_NODE_TYPE_EMPTY;
  NodeParameters parameters;
  std::vector<Step> child;
  bool is_enabled = true;
};

/// Returns the steps of a graph in an order in which each follows its dependencies.
std::vector<Step> steps_of(const Graph& graph);
/// Returns true if the steps of one graph may replace those of the other in an executable graph: both have the same
/// kinds of nodes in the same order.
bool have_one_shape(const std::vector<Step>& left, const std::vector<Step>& right);
/// Returns the step of an executable graph that was made from `node`, or null.
Step* step_of(cuda::CUgraphExec executable, cuda::CUgraphNode node);

/// Returns the nodes in an order in which each follows its dependencies, or fewer nodes if the graph has a cycle.
std::vector<GraphNode*> in_order(const Graph& graph);

/// Fills a caller's array as the driver does. Without an array, returns only the count. If the array is longer than
/// `values`, fills its end with nulls.
template <typename Handle>
void fill(Handle* out, std::size_t& count, const std::vector<Handle>& values) {
  if (out != nullptr) {
    for (std::size_t i = 0; i < count; ++i) out[i] = i < values.size() ? values[i] : nullptr;
    count = std::min(count, values.size());
  } else {
    count = values.size();
  }
}

}  // namespace ration::sim
