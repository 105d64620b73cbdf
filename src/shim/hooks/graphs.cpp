// Memory nodes of graphs, made by hand or by capturing a stream. The driver takes their memory when the graph is
// launched (or uploaded), from a pool of the device that it keeps until it is trimmed; so a launch is admitted first for
// what its nodes need beyond what that pool has lying free. Graphs without memory nodes pass at the cost of one look-up.
#include <algorithm>
#include <atomic>

#include "shim/hooks/governor.hpp"
#include "shim/hooks/graphs.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

/// What an executable graph takes when it runs. One device: memory nodes on several are rare, and are summed.
struct Executable {
  std::uint64_t bytes = 0;
  CUdevice device = -1;
};

Table<Executable> executables;
std::atomic<bool> any_memory_nodes{false};

constexpr int kMaxDevices = 64;
SpinLock reserving[kMaxDevices];
Bytes graph_pool_charged[kMaxDevices];  // under reserving[device]

bool read_attribute(CUdevice device, CUgraphMem_attribute attribute, Bytes& out) noexcept {
  cuuint64_t value = 0;
  const auto result =
      real<cuDeviceGetGraphMemAttribute_t>(Symbol::cuDeviceGetGraphMemAttribute)(device, attribute, &value);
  out = Bytes{value};
  return result == CUDA_SUCCESS;
}

/// Sum over the graph's memory nodes and those of its child graphs: never less than what a launch takes.
void add_nodes(CUgraph graph, Executable& total, int depth) noexcept {
  constexpr std::size_t kBatch = 4096;
  std::size_t count = 0;
  if (depth > 16 || real<cuGraphGetNodes_t>(Symbol::cuGraphGetNodes)(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return;
  const std::size_t size = std::max(count, kBatch) * sizeof(CUgraphNode);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  auto* nodes = static_cast<CUgraphNode*>(memory);
  if (real<cuGraphGetNodes_t>(Symbol::cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS) {
    for (std::size_t i = 0; i < count; ++i) {
      CUgraphNodeType type{};
      if (real<cuGraphNodeGetType_t>(Symbol::cuGraphNodeGetType)(nodes[i], &type) != CUDA_SUCCESS) continue;
      if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
        if (real<cuGraphMemAllocNodeGetParams_t>(Symbol::cuGraphMemAllocNodeGetParams)(nodes[i], &parameters) == CUDA_SUCCESS) {
          total.bytes += round_up(Bytes{parameters.bytesize}, kGranule).count();
          total.device = parameters.poolProps.location.id;
        }
      } else if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
        CUgraph child{};
        if (real<cuGraphChildGraphNodeGetGraph_t>(Symbol::cuGraphChildGraphNodeGetGraph)(nodes[i], &child) == CUDA_SUCCESS) {
          add_nodes(child, total, depth + 1);
        }
      }
    }
  }
  ::munmap(memory, size);
}

/// Makes the charge equal to what the device's graph pool reserves. False: it grew past the limit.
bool follow(CUdevice device) noexcept {
  Bytes reserved;
  if (!read_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved)) return true;
  const std::uint32_t account = account_of(device);
  const SpinGuard guard(reserving[device]);
  Bytes& charged_now = graph_pool_charged[device];
  if (reserved < charged_now) {
    give_back(account, charged_now - reserved, Kind::kPool);
  } else if (reserved > charged_now && !admit_quietly(account, reserved - charged_now, Kind::kPool)) {
    return false;
  }
  charged_now = reserved;
  return true;
}

/// Bytes that this launch may add to the graph pool.
Bytes expected_growth(const Executable& executable) noexcept {
  Bytes reserved;
  Bytes in_use;
  if (!read_attribute(executable.device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved) ||
      !read_attribute(executable.device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, in_use)) {
    return Bytes{executable.bytes};
  }
  const Bytes idle = reserved > in_use ? reserved - in_use : Bytes{0};
  return Bytes{executable.bytes} > idle ? Bytes{executable.bytes} - idle : Bytes{0};
}

template <typename Call>
CUresult run(CUgraphExec handle, const char* function, Call&& call) noexcept {
  Executable executable;
  if (!any_memory_nodes.load(std::memory_order_acquire) || !governed() ||
      !executables.find(reinterpret_cast<std::uint64_t>(handle), executable)) {
    return call();
  }
  if (executable.device < 0 || executable.device >= kMaxDevices) return call();
  const std::uint32_t account = account_of(executable.device);
  Bytes growth = expected_growth(executable);
  if (growth > Bytes{0} && !admit_quietly(account, growth, Kind::kPool)) {
    trim_graph_pools();
    growth = expected_growth(executable);
    if (!admit(account, growth, Kind::kPool, function)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  {
    const SpinGuard guard(reserving[executable.device]);
    graph_pool_charged[executable.device] += growth;
  }
  const CUresult result = call();
  (void)follow(executable.device);
  return result;
}

template <typename Call>
CUresult instantiate(CUgraphExec* out, CUgraph graph, Call&& call) noexcept {
  const CUresult result = call();
  if (result != CUDA_SUCCESS || !governed()) return result;
  Executable executable;
  add_nodes(graph, executable, 0);
  if (executable.bytes > 0) {
    any_memory_nodes.store(true, std::memory_order_release);
    executables.insert(reinterpret_cast<std::uint64_t>(*out), executable);
  }
  return result;
}

}  // namespace

void trim_graph_pools() noexcept {
  if (!any_memory_nodes.load(std::memory_order_acquire)) return;
  for (CUdevice device = 0; device < kMaxDevices; ++device) {
    if (graph_pool_charged[device] == Bytes{0}) continue;
    real<cuDeviceGraphMemTrim_t>(Symbol::cuDeviceGraphMemTrim)(device);
    (void)follow(device);
  }
}

void refresh_graph_pools() noexcept {
  if (!any_memory_nodes.load(std::memory_order_acquire)) return;
  for (CUdevice device = 0; device < kMaxDevices; ++device) {
    if (graph_pool_charged[device] > Bytes{0}) (void)follow(device);
  }
}

void abandon_graphs() noexcept {
  executables.abandon();
  for (int device = 0; device < kMaxDevices; ++device) {
    reserving[device].unlock();
    graph_pool_charged[device] = Bytes{0};
  }
}

}  // namespace ration::shim

using namespace ration::shim;
using namespace ration::cuda;

RATION_HOOK CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log, std::size_t size) {
  return instantiate(out, graph, [&] {
    return real<cuGraphInstantiate_t>(Symbol::cuGraphInstantiate)(out, graph, error_node, log, size);
  });
}
RATION_HOOK CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                                           std::size_t size) {
  return instantiate(out, graph, [&] {
    return real<cuGraphInstantiate_t>(Symbol::cuGraphInstantiate_v2)(out, graph, error_node, log, size);
  });
}
RATION_HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, [&] {
    return real<cuGraphInstantiateWithFlags_t>(Symbol::cuGraphInstantiateWithFlags)(out, graph, flags);
  });
}
RATION_HOOK CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate(out, graph, [&] {
    return real<cuGraphInstantiateWithParams_t>(Symbol::cuGraphInstantiateWithParams)(out, graph, parameters);
  });
}
RATION_HOOK CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                                       CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate(out, graph, [&] {
    return real<cuGraphInstantiateWithParams_t>(Symbol::cuGraphInstantiateWithParams_ptsz)(out, graph, parameters);
  });
}

RATION_HOOK CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return run(executable, "cuGraphLaunch", [&] { return real<cuGraphLaunch_t>(Symbol::cuGraphLaunch)(executable, stream); });
}
RATION_HOOK CUresult cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream) {
  return run(executable, "cuGraphLaunch",
             [&] { return real<cuGraphLaunch_t>(Symbol::cuGraphLaunch_ptsz)(executable, stream); });
}
RATION_HOOK CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
  return run(executable, "cuGraphUpload", [&] { return real<cuGraphUpload_t>(Symbol::cuGraphUpload)(executable, stream); });
}
RATION_HOOK CUresult cuGraphUpload_ptsz(CUgraphExec executable, CUstream stream) {
  return run(executable, "cuGraphUpload",
             [&] { return real<cuGraphUpload_t>(Symbol::cuGraphUpload_ptsz)(executable, stream); });
}

RATION_HOOK CUresult cuGraphExecDestroy(CUgraphExec executable) {
  const CUresult result = real<cuGraphExecDestroy_t>(Symbol::cuGraphExecDestroy)(executable);
  if (result == CUDA_SUCCESS && governed()) {
    Executable entry;
    executables.take(reinterpret_cast<std::uint64_t>(executable), entry);
    refresh_graph_pools();
  }
  return result;
}

RATION_HOOK CUresult cuDeviceGraphMemTrim(CUdevice device) {
  const CUresult result = real<cuDeviceGraphMemTrim_t>(Symbol::cuDeviceGraphMemTrim)(device);
  if (governed()) refresh_graph_pools();
  return result;
}
