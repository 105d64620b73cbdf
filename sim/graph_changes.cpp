// The functions that set and read the parameters of nodes, in a graph and in an executable graph. A node's kind and its
// dependencies are fixed in an executable graph.
#include "graphs.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

template <typename Parameters>
CUresult get(CUgraphNode handle, Parameters* out) {
  const std::lock_guard guard(driver().mutex);
  const GraphNode* node = node_of(handle);
  const auto* kept = node == nullptr ? nullptr : std::get_if<Parameters>(&node->parameters);
  if (kept == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = *kept;
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult set(CUgraphNode handle, CUgraphNodeType type, const Parameters* parameters) {
  const std::lock_guard guard(driver().mutex);
  GraphNode* node = node_of(handle);
  if (node == nullptr || node->type != type || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node->parameters = *parameters;
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult set(CUgraphExec executable, CUgraphNode node, CUgraphNodeType type, const Parameters* parameters) {
  const std::lock_guard guard(driver().mutex);
  Step* step = step_of(executable, node);
  if (step == nullptr || step->type != type || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  step->parameters = *parameters;
  return CUDA_SUCCESS;
}

const CUDA_KERNEL_NODE_PARAMS* launch_of(const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return parameters == nullptr ? nullptr : &parameters->launch;
}

/// Checks that a change names a node of that kind. The change has no effect, since no simulated launch records events.
CUresult set_event(CUgraphExec executable, CUgraphNode node, CUgraphNodeType type) {
  const std::lock_guard guard(driver().mutex);
  const Step* step = step_of(executable, node);
  return step != nullptr && step->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

#define NODE(kind, number, Parameters)                                                                    \
  RATION_ENTRY cuGraph##kind##NodeGetParams(CUgraphNode node, Parameters* out) { return get(node, out); } \
  RATION_ENTRY cuGraph##kind##NodeSetParams(CUgraphNode node, const Parameters* parameters) {             \
    return set(node, number, parameters);                                                                 \
  }
NODE(Kernel, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS)
NODE(Memset, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS)
NODE(Memcpy, CU_GRAPH_NODE_TYPE_MEMCPY, GraphCopyParams)
NODE(Host, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS)

RATION_ENTRY cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  out->kern = nullptr;
  out->ctx = nullptr;
  return get(node, &out->launch);
}
RATION_ENTRY cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return set(node, CU_GRAPH_NODE_TYPE_KERNEL, launch_of(parameters));
}

RATION_ENTRY cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return set(executable, node, CU_GRAPH_NODE_TYPE_KERNEL, parameters);
}
RATION_ENTRY cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return set(executable, node, CU_GRAPH_NODE_TYPE_KERNEL, launch_of(parameters));
}
RATION_ENTRY cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                            const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  return set(executable, node, CU_GRAPH_NODE_TYPE_MEMSET, parameters);
}
RATION_ENTRY cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const GraphCopyParams* parameters,
                                            CUcontext) {
  return set(executable, node, CU_GRAPH_NODE_TYPE_MEMCPY, parameters);
}
RATION_ENTRY cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_HOST_NODE_PARAMS* parameters) {
  return set(executable, node, CU_GRAPH_NODE_TYPE_HOST, parameters);
}
RATION_ENTRY cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent) {
  return set_event(executable, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}
RATION_ENTRY cuGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent) {
  return set_event(executable, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}
RATION_ENTRY cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph child) {
  const std::lock_guard guard(driver().mutex);
  Step* step = step_of(executable, node);
  const Graph* graph = graph_of(child);
  if (step == nullptr || step->type != CU_GRAPH_NODE_TYPE_GRAPH || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Step> steps = steps_of(*graph);
  if (!have_one_shape(steps, step->child)) return CUDA_ERROR_INVALID_VALUE;
  step->child = std::move(steps);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return set(executable, node, parameters->type, &parameters->kernel.launch);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return set(executable, node, parameters->type, &parameters->memset);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return set(executable, node, parameters->type, &parameters->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_HOST:
      return set(executable, node, parameters->type, &parameters->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return cuGraphExecChildGraphNodeSetParams(executable, node, parameters->graph);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
RATION_ENTRY cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return set(node, parameters->type, &parameters->kernel.launch);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return set(node, parameters->type, &parameters->memset);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return set(node, parameters->type, &parameters->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_HOST:
      return set(node, parameters->type, &parameters->host);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

/// Returns true for kernels, copies and fills. Other nodes cannot be disabled.
bool can_be_disabled(const Step& step) {
  return step.type == CU_GRAPH_NODE_TYPE_KERNEL || step.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         step.type == CU_GRAPH_NODE_TYPE_MEMSET;
}
RATION_ENTRY cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned int is_enabled) {
  const std::lock_guard guard(driver().mutex);
  Step* step = step_of(executable, node);
  if (step == nullptr || !can_be_disabled(*step)) return CUDA_ERROR_INVALID_VALUE;
  step->is_enabled = is_enabled != 0;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned int* is_enabled) {
  const std::lock_guard guard(driver().mutex);
  const Step* step = step_of(executable, node);
  if (step == nullptr || !can_be_disabled(*step) || is_enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *is_enabled = step->is_enabled ? 1 : 0;
  return CUDA_SUCCESS;
}
