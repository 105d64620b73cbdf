// The functions that build graphs. The rules for allocation nodes are from the driver's manual: a graph with such nodes
// cannot be cloned or nested, none of its nodes can be removed, and it has at most one executable at a time.
#include "graphs.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace ration::sim {
namespace {

using namespace cuda;

std::unordered_map<Graph*, std::shared_ptr<Graph>>& graphs = *new std::unordered_map<Graph*, std::shared_ptr<Graph>>;

bool collect(Graph* graph, const CUgraphNode* handles, std::size_t count, std::vector<GraphNode*>& out) {
  if (graph == nullptr || (count > 0 && handles == nullptr)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = node_of(handles[i]);
    if (node == nullptr || node->graph != graph) return false;
    out.push_back(node);
  }
  return true;
}

std::shared_ptr<Graph> copy_of(const Graph& from) {
  auto copy = std::make_shared<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const auto& node : from.nodes) {
    copy->nodes.push_back(std::make_unique<GraphNode>(*node));
    GraphNode* made = copy->nodes.back().get();
    made->graph = copy.get();
    made->origin = node.get();
    if (node->child != nullptr) made->child = copy_of(*node->child);
    twin[node.get()] = made;
  }
  for (const auto& node : copy->nodes) {
    for (GraphNode*& dependency : node->dependencies) dependency = twin[dependency];
  }
  graphs[copy.get()] = copy;
  return copy;
}

template <typename Set>
CUresult add_plain(CUgraphNode* out, CUgraph handle, CUgraphNodeType type, const CUgraphNode* dependencies,
                   std::size_t count, Set&& set) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  std::vector<GraphNode*> before;
  if (!collect(graph_of(handle), dependencies, count, before)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = add_node(graph_of(handle), type, before);
  set(*node);
  *out = handle_of(node);
  return CUDA_SUCCESS;
}

}  // namespace

bool Graph::has_memory_nodes() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  });
}

Graph* graph_of(CUgraph handle) {
  auto* graph = reinterpret_cast<Graph*>(handle);
  return graphs.contains(graph) ? graph : nullptr;
}

Graph* new_graph() {
  auto made = std::make_shared<Graph>();
  graphs[made.get()] = made;
  return made.get();
}

void destroy_graph(Graph* graph) {
  for (const auto& node : graph->nodes) {
    if (node->child != nullptr) destroy_graph(node->child.get());
  }
  graphs.erase(graph);
}

GraphNode* add_node(Graph* graph, CUgraphNodeType type, const std::vector<GraphNode*>& dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->type = type;
  node->graph = graph;
  node->dependencies = dependencies;
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

CUresult add_alloc_node(Graph* graph, const std::vector<GraphNode*>& dependencies,
                        CUDA_MEM_ALLOC_NODE_PARAMS& parameters, GraphNode*& out) {
  const CUmemLocation where = parameters.poolProps.location;
  if (parameters.bytesize == 0 || parameters.poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      where.type != CU_MEM_LOCATION_TYPE_DEVICE || node_device(where.id) < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (parameters.bytesize > kUnlimited.count()) return CUDA_ERROR_OUT_OF_MEMORY;
  auto allocation = make_graph_allocation(node_device(where.id), parameters.bytesize);
  if (allocation == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  out = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, dependencies);
  out->pool_properties = parameters.poolProps;
  out->allocation = std::move(allocation);
  parameters.dptr = out->allocation->address;
  return CUDA_SUCCESS;
}

CUresult add_free_node(Graph* graph, const std::vector<GraphNode*>& dependencies, CUdeviceptr address,
                       GraphNode*& out) {
  if (graph_allocation_at(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : graph->nodes) {
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && node->freed == address) return CUDA_ERROR_INVALID_VALUE;
  }
  out = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, dependencies);
  out->freed = address;
  return CUDA_SUCCESS;
}

std::vector<GraphNode*> in_order(const Graph& graph) {
  std::unordered_map<const GraphNode*, std::size_t> waits_for;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> followers;
  std::vector<GraphNode*> order;
  for (const auto& node : graph.nodes) {
    waits_for[node.get()] = node->dependencies.size();
    for (const GraphNode* dependency : node->dependencies) followers[dependency].push_back(node.get());
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (GraphNode* follower : followers[order[i]]) {
      if (--waits_for[follower] == 0) order.push_back(follower);
    }
  }
  return order;
}

}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuGraphCreate(CUgraph* out, unsigned int flags) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  *out = handle_of(new_graph());
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphDestroy(CUgraph handle) {
  const std::lock_guard guard(driver().mutex);
  if (graph_of(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  destroy_graph(graph_of(handle));
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphClone(CUgraph* out, CUgraph handle) {
  const std::lock_guard guard(driver().mutex);
  if (out == nullptr || graph_of(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (graph_of(handle)->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  *out = handle_of(copy_of(*graph_of(handle)).get());
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  const std::lock_guard guard(driver().mutex);
  if (out == nullptr || graph_of(clone) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : graph_of(clone)->nodes) {
    if (node->origin != node_of(original)) continue;
    *out = handle_of(node.get());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

RATION_ENTRY cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
                                    std::size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  if (out == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  std::vector<GraphNode*> before;
  if (!collect(graph_of(handle), dependencies, count, before)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = nullptr;
  const CUresult result = add_alloc_node(graph_of(handle), before, *parameters, node);
  if (result == CUDA_SUCCESS) *out = handle_of(node);
  return result;
}

RATION_ENTRY cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, std::size_t count,
                                   CUdeviceptr address) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  std::vector<GraphNode*> before;
  if (!collect(graph_of(handle), dependencies, count, before)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = nullptr;
  const CUresult result = add_free_node(graph_of(handle), before, address, node);
  if (result == CUDA_SUCCESS) *out = handle_of(node);
  return result;
}

RATION_ENTRY cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count) {
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_EMPTY, before, count, [](GraphNode&) {});
}
RATION_ENTRY cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                       CUevent) {
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD, before, count, [](GraphNode&) {});
}
RATION_ENTRY cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                     CUevent) {
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT, before, count, [](GraphNode&) {});
}

RATION_ENTRY cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                  const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_KERNEL, before, count,
                   [&](GraphNode& node) { node.parameters = *parameters; });
}
RATION_ENTRY cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                     const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return cuGraphAddKernelNode(out, graph, before, count, parameters != nullptr ? &parameters->launch : nullptr);
}

RATION_ENTRY cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                  const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_MEMSET, before, count,
                   [&](GraphNode& node) { node.parameters = *parameters; });
}

RATION_ENTRY cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                  const GraphCopyParams* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_MEMCPY, before, count,
                   [&](GraphNode& node) { node.parameters = *parameters; });
}

RATION_ENTRY cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_HOST, before, count,
                   [&](GraphNode& node) { node.parameters = *parameters; });
}

RATION_ENTRY cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                                      CUgraph child) {
  std::shared_ptr<Graph> copy;
  {
    const std::lock_guard guard(driver().mutex);
    if (graph_of(child) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (graph_of(child)->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
    copy = copy_of(*graph_of(child));
  }
  return add_plain(out, graph, CU_GRAPH_NODE_TYPE_GRAPH, before, count, [&](GraphNode& node) { node.child = copy; });
}

RATION_ENTRY cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, std::size_t count,
                            CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return cuGraphAddKernelNode_v2(out, graph, before, count, &parameters->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphAddMemcpyNode(out, graph, before, count, &parameters->memcpy.copyParams, nullptr);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphAddMemsetNode(out, graph, before, count, &parameters->memset, nullptr);
    case CU_GRAPH_NODE_TYPE_HOST:
      return cuGraphAddHostNode(out, graph, before, count, &parameters->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return cuGraphAddChildGraphNode(out, graph, before, count, parameters->graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return cuGraphAddEmptyNode(out, graph, before, count);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return cuGraphAddMemAllocNode(out, graph, before, count, &parameters->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return cuGraphAddMemFreeNode(out, graph, before, count, parameters->free);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
RATION_ENTRY cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, const CUgraphEdgeData*,
                               std::size_t count, CUgraphNodeParams* parameters) {
  return cuGraphAddNode(out, graph, before, count, parameters);
}

RATION_ENTRY cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, std::size_t count) {
  const std::lock_guard guard(driver().mutex);
  std::vector<GraphNode*> sources, targets;
  Graph* graph = graph_of(handle);
  if (!collect(graph, from, count, sources) || !collect(graph, to, count, targets)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) targets[i]->dependencies.push_back(sources[i]);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                       const CUgraphEdgeData*, std::size_t count) {
  return cuGraphAddDependencies(graph, from, to, count);
}

RATION_ENTRY cuGraphDestroyNode(CUgraphNode handle) {
  const std::lock_guard guard(driver().mutex);
  GraphNode* node = node_of(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph& graph = *node->graph;
  if (graph.has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  for (const auto& other : graph.nodes) std::erase(other->dependencies, node);
  std::erase_if(graph.nodes, [&](const auto& other) { return other.get() == node; });
  return CUDA_SUCCESS;
}
