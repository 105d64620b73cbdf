// Executable graphs. Instantiating a graph decides which granules its allocations can share: an allocation may reuse
// the granules of another allocation if it waits for the node that frees the other one. Launching takes the needed
// granules from the device's graph pool, does the work of the nodes in order, and gives back all granules except those
// that stay allocated.
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "capture.hpp"
#include "contents.hpp"
#include "graphs.hpp"
#include "host_memory.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

extern "C" int cuMemcpy3DAsync_v2(const void*, ration::cuda::CUstream);

namespace ration::sim {
namespace {

using namespace cuda;

/// The granules of one allocation node. `places` are indices in the list of granules that a launch takes on the device.
struct Use {
  std::shared_ptr<GraphAllocation> allocation;
  std::vector<std::uint32_t> places;
  bool freed_inside = false;
};

struct Executable {
  std::vector<Step> steps;
  std::vector<Use> uses;
  std::vector<CUdeviceptr> frees;                      // allocations of other graphs that a launch frees
  std::map<int, std::uint32_t> needed;                 // granules that a launch takes, by device
  std::map<int, std::vector<std::uint32_t>> uploaded;  // granules that were taken before the launch, by device
  unsigned long long flags = 0;
  std::weak_ptr<Graph> source;
  bool running = false;
};

std::unordered_set<Executable*>& executables = *new std::unordered_set<Executable*>;

Executable* executable_of(CUgraphExec handle) {
  auto* executable = reinterpret_cast<Executable*>(handle);
  return executables.contains(executable) ? executable : nullptr;
}

CUresult fill_memory(const CUDA_MEMSET_NODE_PARAMS& set) {
  if (set.elementSize != 1 && set.elementSize != 2 && set.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t row = 0; row < std::max<std::size_t>(1, set.height); ++row) {
    const std::uint64_t at = set.dst + row * set.pitch;
    if (!is_reachable(at, set.width * set.elementSize, Reach::kDevice)) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t bytes = set.width * set.elementSize;
    if (set.value == 0) {
      fill_with_zeros(at, bytes);
      continue;
    }
    if (!touch(at, bytes)) return CUDA_ERROR_OPERATING_SYSTEM;
    for (std::size_t i = 0; i < set.width; ++i) {
      std::memcpy(reinterpret_cast<void*>(at + i * set.elementSize), &set.value, set.elementSize);
    }
  }
  return CUDA_SUCCESS;
}

CUresult run_all(const std::vector<Step>& steps) {
  CUresult result = CUDA_SUCCESS;
  for (const Step& step : steps) {
    if (!step.is_enabled) continue;
    const CUresult one = step.child.empty() ? run(step.parameters) : run_all(step.child);
    if (result == CUDA_SUCCESS) result = one;
  }
  return result;
}

std::uint64_t kernels_in(const std::vector<Step>& steps) {
  std::uint64_t count = 0;
  for (const Step& step : steps) {
    if (step.is_enabled) count += step.child.empty() ? step.type == CU_GRAPH_NODE_TYPE_KERNEL : kernels_in(step.child);
  }
  return count;
}

/// Returns all nodes that `node` waits for, directly or not.
std::unordered_set<const GraphNode*> ancestors(const GraphNode* node) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> open{node};
  while (!open.empty()) {
    const GraphNode* at = open.back();
    open.pop_back();
    for (const GraphNode* dependency : at->dependencies) {
      if (seen.insert(dependency).second) open.push_back(dependency);
    }
  }
  return seen;
}

void plan_memory(const Graph& graph, Executable& out) {
  struct Idle {
    std::uint32_t place;
    const GraphNode* since;  // the node that frees the granule: whatever waits for it may use the granule again
  };
  std::map<int, std::vector<Idle>> idle;
  std::unordered_map<CUdeviceptr, std::size_t> use_at;
  for (const GraphNode* node : in_order(graph)) {
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      const int device = node->allocation->device;
      const std::uint64_t count = node->allocation->extent >> 21;
      const auto before = ancestors(node);
      Use use{node->allocation, {}, false};
      std::erase_if(idle[device], [&](const Idle& candidate) {
        if (use.places.size() == count || !before.contains(candidate.since)) return false;
        use.places.push_back(candidate.place);
        return true;
      });
      while (use.places.size() < count) use.places.push_back(out.needed[device]++);
      use_at[node->allocation->address] = out.uses.size();
      out.uses.push_back(std::move(use));
    } else if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      const auto found = use_at.find(node->freed);
      if (found == use_at.end()) {
        out.frees.push_back(node->freed);
        continue;
      }
      Use& use = out.uses[found->second];
      use.freed_inside = true;
      for (const std::uint32_t place : use.places) idle[use.allocation->device].push_back({place, node});
    }
  }
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  const std::lock_guard guard(driver().mutex);
  Graph* graph = graph_of(handle);
  if (out == nullptr || graph == nullptr || in_order(*graph).size() != graph->nodes.size())
    return CUDA_ERROR_INVALID_VALUE;
  if (graph->has_memory_nodes() && graph->executables > 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto* made = new Executable;
  made->flags = flags;
  made->source = graph->weak_from_this();
  made->steps = steps_of(*graph);
  plan_memory(*graph, *made);
  ++graph->executables;
  executables.insert(made);
  *out = reinterpret_cast<CUgraphExec>(made);
  return CUDA_SUCCESS;
}

/// Sets the granules aside in the pools of all devices, or in none if one of the devices is full.
bool take(Executable& executable) {
  for (const auto& [device, count] : executable.needed) {
    if (executable.uploaded.contains(device)) continue;
    if (!take_graph_granules(device, count, executable.uploaded[device])) {
      executable.uploaded.erase(device);
      for (auto& [other, granules] : executable.uploaded) give_graph_granules(other, granules);
      executable.uploaded.clear();
      return false;
    }
  }
  return true;
}

CUresult begin(Executable& executable) {
  for (const Use& use : executable.uses) {
    if (!use.allocation->live) continue;
    if ((executable.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) return CUDA_ERROR_INVALID_VALUE;
    free_graph_allocation(use.allocation->address);
  }
  for (const CUdeviceptr address : executable.frees) {
    const auto allocation = graph_allocation_at(address);
    if (allocation == nullptr || !allocation->live) return CUDA_ERROR_INVALID_VALUE;
  }
  if (!take(executable)) return CUDA_ERROR_OUT_OF_MEMORY;
  executable.running = true;
  for (const Use& use : executable.uses) {
    const auto& granules = executable.uploaded[use.allocation->device];
    for (const std::uint32_t place : use.places) use.allocation->granules.push_back(granules[place]);
    map_graph_allocation(*use.allocation);
  }
  return CUDA_SUCCESS;
}

void finish(Executable& executable) {
  executable.running = false;
  std::map<int, std::unordered_set<std::uint32_t>> kept;
  for (const Use& use : executable.uses) {
    if (use.freed_inside) {
      unmap_graph_allocation(*use.allocation);
      use.allocation->granules.clear();
    } else {
      kept[use.allocation->device].insert(use.allocation->granules.begin(), use.allocation->granules.end());
      keep_graph_allocation(use.allocation);
    }
  }
  for (auto& [device, granules] : executable.uploaded) {
    std::erase_if(granules, [&](std::uint32_t granule) { return kept[device].contains(granule); });
    give_graph_granules(device, granules);
  }
  executable.uploaded.clear();
  for (const CUdeviceptr address : executable.frees) free_graph_allocation(address);
}

CUresult start(CUgraphExec handle, CUstream stream) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Executable* executable = nullptr;
  {
    const std::lock_guard guard(driver().mutex);
    executable = executable_of(handle);
    if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = begin(*executable); result != CUDA_SUCCESS) return result;
  }
  const CUresult result = run_all(executable->steps);
  occupy(stream, kernels_in(executable->steps) * kernel_latency());
  const std::lock_guard guard(driver().mutex);
  finish(*executable);
  return result;
}

CUresult launch(CUgraphExec handle, CUstream stream) {
  const auto describe = [&](Operation& operation) {
    operation.address = reinterpret_cast<std::uint64_t>(handle);
    operation.stream = stream;
    operation.is_async = true;
  };
  return observed(Work::kGraph, "cuGraphLaunch", describe, [&] { return start(handle, stream); });
}

CUresult upload(CUgraphExec handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  Executable* executable = executable_of(handle);
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return take(*executable) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResult& outcome) {
  const std::lock_guard guard(driver().mutex);
  Executable* executable = executable_of(handle);
  Graph* graph = graph_of(graph_handle);
  if (executable == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Step> changed = steps_of(*graph);
  const bool same = have_one_shape(changed, executable->steps) && !graph->has_memory_nodes();
  outcome = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  // Only parameters and child graphs change: the nodes stay those of the graph that was instantiated.
  for (std::size_t i = 0; i < changed.size(); ++i) {
    executable->steps[i].parameters = changed[i].parameters;
    executable->steps[i].child = std::move(changed[i].child);
  }
  return CUDA_SUCCESS;
}

}  // namespace

std::vector<Step> steps_of(const Graph& graph) {
  std::vector<Step> steps;
  for (const GraphNode* node : in_order(graph)) {
    steps.push_back({node, node->type, node->parameters, {}, true});
    if (node->child != nullptr) steps.back().child = steps_of(*node->child);
  }
  return steps;
}

bool have_one_shape(const std::vector<Step>& left, const std::vector<Step>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const Step& one, const Step& other) {
    return one.type == other.type && have_one_shape(one.child, other.child);
  });
}

Step* step_of(CUgraphExec handle, CUgraphNode node) {
  Executable* executable = executable_of(handle);
  if (executable == nullptr) return nullptr;
  const auto found = std::find_if(executable->steps.begin(), executable->steps.end(),
                                  [&](const Step& step) { return step.node == node_of(node); });
  return found == executable->steps.end() ? nullptr : &*found;
}

CUresult run(const NodeParameters& parameters) {
  if (const auto* set = std::get_if<CUDA_MEMSET_NODE_PARAMS>(&parameters)) return fill_memory(*set);
  if (const auto* copy = std::get_if<GraphCopyParams>(&parameters))
    return static_cast<CUresult>(cuMemcpy3DAsync_v2(copy, nullptr));
  if (const auto* host = std::get_if<CUDA_HOST_NODE_PARAMS>(&parameters)) host->fn(host->userData);
  return CUDA_SUCCESS;  // kernels compute nothing
}

void give_up_uploads(int device) {
  for (Executable* executable : executables) {
    const auto found = executable->uploaded.find(device);
    if (found == executable->uploaded.end() || executable->running) continue;
    give_graph_granules(device, found->second);
    executable->uploaded.erase(found);
  }
}

}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return instantiate(out, graph, 0);
}
RATION_ENTRY cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, std::size_t) {
  return instantiate(out, graph, 0);
}
RATION_ENTRY cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
    return CUDA_ERROR_INVALID_VALUE;  // no stream is given for the upload
  return instantiate(out, graph, flags);
}
RATION_ENTRY cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = instantiate(out, graph, parameters->flags);
  if (result == CUDA_SUCCESS && (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) result = upload(*out);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}
RATION_ENTRY cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return cuGraphInstantiateWithParams(out, graph, parameters);
}

RATION_ENTRY cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* out) {
  const std::lock_guard guard(driver().mutex);
  if (executable_of(handle) == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = executable_of(handle)->flags;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGraphUpload(CUgraphExec executable, CUstream) { return upload(executable); }
RATION_ENTRY cuGraphUpload_ptsz(CUgraphExec executable, CUstream) { return upload(executable); }
RATION_ENTRY cuGraphLaunch(CUgraphExec executable, CUstream stream) { return launch(executable, stream); }
RATION_ENTRY cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream) {
  return launch(executable, per_thread(stream));
}

RATION_ENTRY cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  return update(executable, graph, out->result);
}
RATION_ENTRY cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode* error_node,
                               CUgraphExecUpdateResult* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (error_node != nullptr) *error_node = nullptr;
  return update(executable, graph, *out);
}

// Destroys an executable graph. Its live allocations stay; memory that was only uploaded goes back to the pool.
RATION_ENTRY cuGraphExecDestroy(CUgraphExec handle) {
  const std::lock_guard guard(driver().mutex);
  Executable* executable = executable_of(handle);
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [device, granules] : executable->uploaded) give_graph_granules(device, granules);
  if (const auto source = executable->source.lock(); source != nullptr) --source->executables;
  executables.erase(executable);
  delete executable;
  return CUDA_SUCCESS;
}
