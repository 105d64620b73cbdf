// Memory nodes of graphs, made by hand or by capturing a stream. The driver takes their memory when the graph is
// launched (or uploaded), from a pool of the device that it keeps until it is trimmed; so a launch is admitted first
// for what its nodes need beyond what that pool has lying free. Graphs without memory nodes pass at the cost of one
// look-up.
#include "shim/hooks/graphs.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "driver/cuda_graph_abi.hpp"
#include "shim/hooks/after_fork.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

/// What an executable graph takes when it runs. One device: memory nodes on several are rare, and are summed.
struct Executable {
  std::uint64_t most = 0;   // never takes more: the sum of its allocations, or what a launch has shown
  std::uint64_t least = 0;  // never less: its largest allocation, and the sum of those that it does not free itself
  CUdevice device = -1;
};

Table<Executable> executables;
Table<std::uint64_t> left_by;  // address -> the executable that leaves it allocated and frees it at its next launch
std::atomic<bool> any_memory_nodes{false};

SpinLock reserving[kMaxDevices];
Bytes graph_pool_charged[kMaxDevices];  // under reserving[device]
// Held from the admission of a launch to its end: two launches must not count on the same idle bytes.
pthread_mutex_t launching[kMaxDevices];
[[gnu::constructor(101)]] void make_mutexes() noexcept {
  for (auto& mutex : launching) ::pthread_mutex_init(&mutex, nullptr);
}

bool read_attribute(CUdevice device, CUgraphMem_attribute attribute, Bytes& out) noexcept {
  cuuint64_t value = 0;
  const auto result =
      real<cuDeviceGetGraphMemAttribute_t>(Symbol::cuDeviceGetGraphMemAttribute)(device, attribute, &value);
  out = Bytes{value};
  return result == CUDA_SUCCESS;
}

/// A batch of nodes in memory of its own; the program's malloc may itself call the driver.
class Nodes {
 public:
  explicit Nodes(CUgraph graph) noexcept {
    auto* ask = real<cuGraphGetNodes_t>(Symbol::cuGraphGetNodes);
    if (ask(graph, nullptr, &count_) != CUDA_SUCCESS || count_ == 0) return;
    void* memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    nodes_ = static_cast<CUgraphNode*>(memory);
    capacity_ = count_;
    if (ask(graph, nodes_, &count_) != CUDA_SUCCESS) count_ = 0;
  }
  ~Nodes() {
    count_ = capacity_;
    if (nodes_ != nullptr) ::munmap(nodes_, bytes());
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  [[nodiscard]] const CUgraphNode* begin() const noexcept { return nodes_; }
  [[nodiscard]] const CUgraphNode* end() const noexcept { return nodes_ == nullptr ? nullptr : nodes_ + count_; }

 private:
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(CUgraphNode); }
  CUgraphNode* nodes_ = nullptr;
  std::size_t count_ = 0, capacity_ = 0;
};

CUgraphNodeType type_of(CUgraphNode node) noexcept {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  (void)real<cuGraphNodeGetType_t>(Symbol::cuGraphNodeGetType)(node, &type);
  return type;
}

/// The addresses that one graph frees, while its nodes are counted.
Table<bool>* freed_here() noexcept {
  static Table<bool> freed;
  return &freed;
}

/// The bounds of what the graph takes, child graphs included.
void add_nodes(CUgraph graph, Executable& total, int depth, std::uint64_t freed_by) noexcept {
  if (depth > 16) return;
  const Nodes nodes(graph);
  Table<bool>* const freed = freed_here();
  freed->abandon();
  for (const CUgraphNode node : nodes) {
    CUdeviceptr address = 0;
    if (type_of(node) == CU_GRAPH_NODE_TYPE_MEM_FREE &&
        real<cuGraphMemFreeNodeGetParams_t>(Symbol::cuGraphMemFreeNodeGetParams)(node, &address) == CUDA_SUCCESS) {
      freed->insert(address, true);
    }
  }
  std::uint64_t largest = 0, left = 0;
  for (const CUgraphNode node : nodes) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
    if (type_of(node) != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        real<cuGraphMemAllocNodeGetParams_t>(Symbol::cuGraphMemAllocNodeGetParams)(node, &parameters) != CUDA_SUCCESS) {
      continue;
    }
    const std::uint64_t size = round_up(Bytes{parameters.bytesize}, kGranule).count();
    bool is_freed = false;
    total.most += size;
    total.device = parameters.poolProps.location.id;
    largest = std::max(largest, size);
    if (freed->find(parameters.dptr, is_freed)) continue;
    left += size;
    if (freed_by != 0) left_by.insert(parameters.dptr, freed_by);
  }
  total.least = std::max({total.least, largest, left});
  for (const CUgraphNode node : nodes) {
    CUgraph child{};
    if (type_of(node) == CU_GRAPH_NODE_TYPE_GRAPH &&
        real<cuGraphChildGraphNodeGetGraph_t>(Symbol::cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS) {
      add_nodes(child, total, depth + 1, freed_by);
    }
  }
}

/// Makes the charge equal to what the device's graph pool reserves. What it reserves it has: that is entered past the
/// limit too, so that nobody is granted the same bytes.
void follow(CUdevice device) noexcept {
  const SpinGuard guard(reserving[device]);
  Bytes reserved;
  if (!read_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved)) return;
  Bytes& charged_now = graph_pool_charged[device];
  if (reserved < charged_now) give_back(account_of(device), charged_now - reserved, Kind::kPool);
  if (reserved > charged_now)
    book().account(account_of(device)).charge_unconditionally(reserved - charged_now, Kind::kPool);
  charged_now = reserved;
}

struct PoolState {
  Bytes reserved, idle;
};
PoolState pool_state(CUdevice device) noexcept {
  PoolState state;
  Bytes in_use;
  if (read_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, state.reserved) &&
      read_attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, in_use) && state.reserved > in_use) {
    state.idle = state.reserved - in_use;
  }
  return state;
}

Bytes beyond(std::uint64_t needed, Bytes idle) noexcept {
  return Bytes{needed} > idle ? Bytes{needed} - idle : Bytes{0};
}

void trim(CUdevice device) noexcept {
  real<cuDeviceGraphMemTrim_t>(Symbol::cuDeviceGraphMemTrim)(device);
  follow(device);
}

/// Enters the pool's growth before the driver takes it. Under launching[device].
bool enter(const Executable& executable, Bytes growth) noexcept {
  const SpinGuard guard(reserving[executable.device]);
  if (growth > Bytes{0} && !admit_quietly(account_of(executable.device), growth, Kind::kPool)) return false;
  graph_pool_charged[executable.device] += growth;
  return true;
}

/// What the executable's last launch left is freed as its next launch would free it: the driver counts it as used till
/// then.
void free_what_was_left(std::uint64_t key, CUstream stream) noexcept {
  constexpr std::size_t kMaxAddresses = 512;  // beyond these the launch may be denied although it would fit
  CUdeviceptr addresses[kMaxAddresses];
  std::size_t count = 0;
  left_by.each([&](std::uint64_t address, std::uint64_t owner) {
    if (owner == key && count < kMaxAddresses) addresses[count++] = address;
  });
  for (std::size_t i = 0; i < count; ++i) real<cuMemFreeAsync_t>(Symbol::cuMemFreeAsync)(addresses[i], stream);
}

/// The graph might need more than is left, or less: allocations that follow each other share bytes, and only the driver
/// knows which. So it is asked to take the memory without running anything, under all that is left of the limit; more
/// than that is given back at once, and the launch denied.
template <typename Call>
CUresult run_if_it_fits(CUgraphExec handle, CUstream stream, Symbol upload, const Executable& executable,
                        const char* function, Call&& call) noexcept {
  const CUdevice device = executable.device;
  const std::uint32_t account = account_of(device);
  for (int attempt = 0; attempt < 2; ++attempt) {
    trim(device);
    const Bytes left = book_usable() ? round_down(book().account(account).headroom(), kGranule) : Bytes{0};
    const bool possible = beyond(executable.least, Bytes{0}) <= left && enter(executable, left);
    if (possible) {
      const CUresult taken = real<cuGraphUpload_t>(upload)(handle, stream);
      if (taken == CUDA_SUCCESS) (void)real<cuStreamSynchronize_t>(Symbol::cuStreamSynchronize)(stream);
      const Bytes most = graph_pool_charged[device];
      const bool fits = taken == CUDA_SUCCESS && pool_state(device).reserved <= most;
      if (fits) {
        const CUresult result = call();
        follow(device);
        return result;
      }
      trim(device);
      if (taken != CUDA_SUCCESS) return taken;
    }
    // Once more after others were made to give back what they keep, or after waiting: then as a denial on the record.
    const Bytes needed = beyond(possible ? executable.most : executable.least, Bytes{0});
    if (attempt == 1 || !admit(account, needed, Kind::kPool, function)) break;
    give_back(account, needed, Kind::kPool);
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// One launch, while no other of this device runs. `refused`: what the driver itself had no memory for, though the book
/// granted it.
template <typename Call>
CUresult run_once(CUgraphExec handle, CUstream stream, Symbol upload, Executable executable, const char* function,
                  Bytes& refused, Call&& call) noexcept {
  const CUdevice device = executable.device;
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  const PoolState before = pool_state(device);
  CUresult result = CUDA_SUCCESS;
  std::uint64_t shown = executable.most;
  if (const Bytes growth = beyond(executable.most, before.idle); enter(executable, growth)) {
    result = call();
    follow(device);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) refused = growth;
    // What was in use stays in use, so all that the graph got was idle before or is new.
    shown = (pool_state(device).reserved - (before.reserved - before.idle)).count();
  } else {
    free_what_was_left(key, stream);
    result = run_if_it_fits(handle, stream, upload, executable, function, call);
    // The pool had been trimmed: what it reserves now, beside what lived on, is this graph's.
    shown = beyond(pool_state(device).reserved.count(), before.reserved - before.idle).count();
  }
  if (result == CUDA_SUCCESS && shown < executable.most) {
    executable.most = std::max(executable.least, shown);
    executables.insert(key, executable);
  }
  return result;
}

template <typename Call>
CUresult run(CUgraphExec handle, CUstream stream, Symbol upload, const char* function, Call&& call) noexcept {
  Executable executable;
  if (!any_memory_nodes.load(std::memory_order_acquire) || !governed() ||
      !executables.find(reinterpret_cast<std::uint64_t>(handle), executable))
    return call();
  const CUdevice device = executable.device;
  if (device < 0 || device >= kMaxDevices) return call();
  const std::uint32_t account = account_of(device);
  if (account == kNoAccount) return CUDA_ERROR_OUT_OF_MEMORY;
  return while_device_is_full(account, function, [&](Bytes& refused) {
    ::pthread_mutex_lock(&launching[device]);
    const CUresult result = run_once(handle, stream, upload, executable, function, refused, call);
    ::pthread_mutex_unlock(&launching[device]);
    return result;
  });
}

template <typename Call>
CUresult instantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags, Call&& call) noexcept {
  const CUresult result = call();
  if (result != CUDA_SUCCESS || !governed()) return result;
  Executable executable;
  {
    static SpinLock counting;
    const SpinGuard guard(counting);
    const bool frees = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    add_nodes(graph, executable, 0, frees ? reinterpret_cast<std::uint64_t>(*out) : 0);
  }
  if (executable.most > 0) {
    any_memory_nodes.store(true, std::memory_order_release);
    executables.insert(reinterpret_cast<std::uint64_t>(*out), executable);
  }
  return result;
}

}  // namespace

void trim_graph_pools() noexcept {
  if (!any_memory_nodes.load(std::memory_order_acquire)) return;
  for (CUdevice device = 0; device < kMaxDevices; ++device) {
    // A launch under way counts on what its pool keeps.
    if (graph_pool_charged[device] == Bytes{0} || ::pthread_mutex_trylock(&launching[device]) != 0) continue;
    trim(device);
    ::pthread_mutex_unlock(&launching[device]);
  }
}

void refresh_graph_pools() noexcept {
  if (!any_memory_nodes.load(std::memory_order_acquire)) return;
  for (CUdevice device = 0; device < kMaxDevices; ++device) {
    if (graph_pool_charged[device] == Bytes{0} || ::pthread_mutex_trylock(&launching[device]) != 0) continue;
    follow(device);
    ::pthread_mutex_unlock(&launching[device]);
  }
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  executables.abandon();
  left_by.abandon();
  for (int device = 0; device < kMaxDevices; ++device) {
    reserving[device].unlock();
    ::pthread_mutex_init(&launching[device], nullptr);
    graph_pool_charged[device] = Bytes{0};
  }
});

}  // namespace ration::shim

using namespace ration::shim;
using namespace ration::cuda;

RATION_HOOK CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                                        std::size_t size) {
  return instantiate(out, graph, 0, [&] {
    return real<cuGraphInstantiate_t>(Symbol::cuGraphInstantiate)(out, graph, error_node, log, size);
  });
}
RATION_HOOK CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                                           std::size_t size) {
  return instantiate(out, graph, 0, [&] {
    return real<cuGraphInstantiate_t>(Symbol::cuGraphInstantiate_v2)(out, graph, error_node, log, size);
  });
}
RATION_HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags, [&] {
    return real<cuGraphInstantiateWithFlags_t>(Symbol::cuGraphInstantiateWithFlags)(out, graph, flags);
  });
}
namespace {

/// With the flag that uploads at once, instantiating takes the memory: the upload is done apart, so that it is
/// admitted.
CUresult instantiate_with(Symbol symbol, Symbol upload, CUgraphExec* out, CUgraph graph,
                          CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) noexcept {
  auto* call_real = real<cuGraphInstantiateWithParams_t>(symbol);
  if (parameters == nullptr || !governed() || (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0) {
    return instantiate(out, graph, parameters != nullptr ? parameters->flags : 0,
                       [&] { return call_real(out, graph, parameters); });
  }
  CUDA_GRAPH_INSTANTIATE_PARAMS apart = *parameters;
  apart.flags &= ~static_cast<cuuint64_t>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  CUresult result = instantiate(out, graph, apart.flags, [&] { return call_real(out, graph, &apart); });
  parameters->hErrNode_out = apart.hErrNode_out;
  parameters->result_out = apart.result_out;
  if (result != CUDA_SUCCESS) return result;
  const CUstream stream = parameters->hUploadStream;
  result = run(*out, stream, upload, "cuGraphInstantiate", [&] { return real<cuGraphUpload_t>(upload)(*out, stream); });
  if (result == CUDA_SUCCESS) return result;
  Executable entry;
  executables.take(reinterpret_cast<std::uint64_t>(*out), entry);
  real<cuGraphExecDestroy_t>(Symbol::cuGraphExecDestroy)(*out);
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

}  // namespace

RATION_HOOK CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate_with(Symbol::cuGraphInstantiateWithParams, Symbol::cuGraphUpload, out, graph, parameters);
}
RATION_HOOK CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                                       CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate_with(Symbol::cuGraphInstantiateWithParams_ptsz, Symbol::cuGraphUpload_ptsz, out, graph,
                          parameters);
}

#define RATION_RUN(name, upload)                                                         \
  RATION_HOOK CUresult name(CUgraphExec executable, CUstream stream) {                   \
    return run(executable, stream, Symbol::upload, #name,                                \
               [&] { return real<cuGraphLaunch_t>(Symbol::name)(executable, stream); }); \
  }
RATION_RUN(cuGraphLaunch, cuGraphUpload)
RATION_RUN(cuGraphLaunch_ptsz, cuGraphUpload_ptsz)
RATION_RUN(cuGraphUpload, cuGraphUpload)
RATION_RUN(cuGraphUpload_ptsz, cuGraphUpload_ptsz)
#undef RATION_RUN

RATION_HOOK CUresult cuGraphExecDestroy(CUgraphExec executable) {
  // Forgotten before the call: afterwards the driver may give the same handle to another thread.
  Executable entry;
  const bool known = any_memory_nodes.load(std::memory_order_acquire) && governed() &&
                     executables.take(reinterpret_cast<std::uint64_t>(executable), entry);
  const CUresult result = real<cuGraphExecDestroy_t>(Symbol::cuGraphExecDestroy)(executable);
  if (!known) return result;
  if (result != CUDA_SUCCESS)
    executables.insert(reinterpret_cast<std::uint64_t>(executable), entry);
  else
    left_by.remove_if(
        [&](std::uint64_t, std::uint64_t owner) { return owner == reinterpret_cast<std::uint64_t>(executable); });
  refresh_graph_pools();
  return result;
}

RATION_HOOK CUresult cuDeviceGraphMemTrim(CUdevice device) {
  auto* call_real = real<cuDeviceGraphMemTrim_t>(Symbol::cuDeviceGraphMemTrim);
  if (!governed() || device < 0 || device >= kMaxDevices) return call_real(device);
  ::pthread_mutex_lock(&launching[device]);
  const CUresult result = call_real(device);
  follow(device);
  ::pthread_mutex_unlock(&launching[device]);
  return result;
}
