// The queries about graphs: their nodes, edges and parameters.
#include "graphs.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

std::vector<CUgraphNode> handles_of(const std::vector<GraphNode*>& nodes) {
  std::vector<CUgraphNode> handles;
  for (const GraphNode* node : nodes) handles.push_back(handle_of(node));
  return handles;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuGraphGetNodes(CUgraph handle, CUgraphNode* out, std::size_t* count) {
  const std::lock_guard guard(driver().mutex);
  if (graph_of(handle) == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> nodes;
  for (const auto& node : graph_of(handle)->nodes) nodes.push_back(handle_of(node.get()));
  fill(out, *count, nodes);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, std::size_t* count) {
  const std::lock_guard guard(driver().mutex);
  if (graph_of(handle) == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> nodes;
  for (const auto& node : graph_of(handle)->nodes) {
    if (node->dependencies.empty()) nodes.push_back(handle_of(node.get()));
  }
  fill(out, *count, nodes);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  const std::lock_guard guard(driver().mutex);
  if (graph_of(handle) == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> sources, targets;
  for (const auto& node : graph_of(handle)->nodes) {
    for (const GraphNode* dependency : node->dependencies) {
      sources.push_back(handle_of(dependency));
      targets.push_back(handle_of(node.get()));
    }
  }
  std::size_t room = *count;
  fill(from, room, sources);
  fill(to, *count, targets);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                std::size_t* count) {
  const CUresult result = cuGraphGetEdges(handle, from, to, count);
  if (result == CUDA_SUCCESS && data != nullptr) std::fill_n(data, *count, CUgraphEdgeData{});
  return result;
}

RATION_ENTRY cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* out) {
  if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = node_of(node)->type;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, std::size_t* count) {
  const std::lock_guard guard(driver().mutex);
  if (node == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  fill(out, *count, handles_of(node_of(node)->dependencies));
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* out, std::size_t* count) {
  const std::lock_guard guard(driver().mutex);
  if (handle == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> followers;
  for (const auto& node : node_of(handle)->graph->nodes) {
    for (const GraphNode* dependency : node->dependencies) {
      if (dependency == node_of(handle)) followers.push_back(handle_of(node.get()));
    }
  }
  fill(out, *count, followers);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  const GraphNode* node = node_of(handle);
  if (node == nullptr || out == nullptr || node->allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {node->pool_properties, nullptr, 0, node->allocation->size, node->allocation->address};
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* out) {
  const GraphNode* node = node_of(handle);
  if (node == nullptr || out == nullptr || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE) return CUDA_ERROR_INVALID_VALUE;
  *out = node->freed;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  const GraphNode* node = node_of(handle);
  if (node == nullptr || out == nullptr || node->child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(node->child.get());
  return CUDA_SUCCESS;
}
