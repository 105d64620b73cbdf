// Memory nodes of graphs, made by hand or by capturing a stream. The driver takes their memory when the graph is
// launched (or uploaded), from a pool of the device, which keeps the memory until the pool is trimmed. When a graph is
// instantiated, the most bytes that it may take on each device are computed from its nodes. They are entered before
// each launch; after the launch the charge is set to the bytes that the pool reserves. Graphs without memory nodes cost
// one look-up.
#include "guard/hooks/graphs.hpp"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "driver/cuda_graph_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/graph_reader.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"
#include "guard/hooks/while_others_capture.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

/// An executable graph with memory nodes.
struct Executable {
  std::uint64_t devices = 0;  // devices whose memory it takes, one bit each
  std::uint64_t frees = 0;    // the number of its entries in `freed_by`
};
static_assert(kMaxDevices == 64);

/// The memory that one executable graph takes on one device.
struct Need {
  std::uint64_t most = 0;        // the upper bound of what a run takes
  std::uint64_t leaves = 0;      // bytes that a launch leaves allocated
  std::uint64_t left = 0;        // the part of `leaves` still allocated since the last launch
  std::uint64_t generation = 0;  // the generation of the device's graph pool after the last launch
  std::uint32_t launches = 0;
  bool is_uploaded = false;  // true if the pool has set memory aside for the next launch
};

/// An allocation that outlives its graph's launch.
struct Left {
  std::uint64_t executable = 0;
  std::uint64_t bytes = 0;
  CUdevice device = 0;
  std::uint32_t freed_after = 0;  // the launch after which it was freed; it is free if that is the latest launch
};

Table<Executable> executables;  // the key is the handle
Table<Need> needs;              // the key is part_key(), one per device
Table<Left> lefts;              // the key is the address
Table<std::uint64_t> freed_by;  // the key is part_key(); addresses that a graph frees and another graph allocated
std::atomic<bool> any_memory_nodes{false};

/// The device's graph pool as the book has it.
struct GraphPool {
  // The lock that a thread holds while it enters and makes a launch, so that two launches do not count on the same idle
  // bytes. No thread waits for memory while it holds the lock.
  pthread_mutex_t launching;
  SpinLock reserving;
  Bytes charged;  // protected by `reserving`
  // Counts what may have taken an executable graph's memory out of the pool: a trim, or another graph that keeps that
  // memory allocated. Protected by `launching`.
  std::uint64_t generation = 1;
};
GraphPool graph_pools[kMaxDevices];
[[gnu::constructor(101)]] void make_mutexes() noexcept {
  for (GraphPool& pool : graph_pools) ::pthread_mutex_init(&pool.launching, nullptr);
}

/// The bound of parts: a handle is an address below 2^48, so a key has 16 bits left for the part.
constexpr std::uint64_t kMostParts = 1 << 16;
std::uint64_t part_key(CUgraphExec executable, std::uint64_t part) noexcept {
  return reinterpret_cast<std::uint64_t>(executable) | part << 48;
}
std::uint64_t part_key(CUgraphExec executable, CUdevice device) noexcept {
  return part_key(executable, static_cast<std::uint64_t>(device));
}

template <typename Visit>
void each_device(std::uint64_t devices, Visit&& visit) noexcept {
  for (; devices != 0; devices &= devices - 1) visit(static_cast<CUdevice>(std::countr_zero(devices)));
}

bool read_attribute(CUdevice device, CUgraphMem_attribute attribute, Bytes& out) noexcept {
  const WhileOthersCapture relaxed;
  cuuint64_t value = 0;
  const auto result =
      real<cuDeviceGetGraphMemAttribute_t>(Symbol::cuDeviceGetGraphMemAttribute)(device, attribute, &value);
  out = Bytes{value};
  return result == CUDA_SUCCESS;
}

/// Sets the charge to what the device's graph pool reserves. The pool holds those bytes already, so they are entered
/// even past the limit: another request must not be granted the same bytes. `entered` is the part of the charge that
/// this thread entered for a launch. Returns the bytes by which the pool exceeded the charge.
Bytes follow(CUdevice device, Bytes entered = Bytes{0}, Bytes peak_before = kUnlimited) noexcept {
  GraphPool& pool = graph_pools[device];
  const SpinGuard guard(pool.reserving);
  Bytes reserved;
  if (!read_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved)) return Bytes{0};
  const Bytes charged_before = pool.charged;
  pool.charged = reserved;
  if (reserved > charged_before) {
    const Bytes growth = reserved - charged_before;
    book().account(account_of(device)).charge_unconditionally(growth, Kind::kPool);
    return growth;
  }
  const Bytes unused = std::min(entered, charged_before - reserved);
  take_back(account_of(device), unused, Kind::kPool, peak_before);
  give_back(account_of(device), charged_before - reserved - unused, Kind::kPool);
  return Bytes{0};
}

/// Trims the pool. Requires pool.launching.
void trim(CUdevice device) noexcept {
  const WhileOthersCapture relaxed;
  real<cuDeviceGraphMemTrim_t>(Symbol::cuDeviceGraphMemTrim)(device);
  ++graph_pools[device].generation;
  follow(device);
}

/// Returns the bytes by which the pool may grow. Requires pool.launching.
Bytes growth_of(const Need& need, CUdevice device, bool is_upload) noexcept {
  Bytes reserved, in_use;
  std::uint64_t there = 0;
  // If the generation is unchanged, the memory of the graph's last launch is still there and serves the graph again.
  if (need.generation == graph_pools[device].generation &&
      read_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved) &&
      read_attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, in_use)) {
    there = (reserved - std::min(reserved, in_use)).count() + (need.is_uploaded ? need.most : 0);
  }
  if (!is_upload) there += need.left;  // the launch frees these bytes before it takes any
  return Bytes{need.most > there ? need.most - there : 0};
}

enum class Run { kLaunch, kUpload };

/// One launch or upload, on every device whose memory it takes.
class Launch {
 public:
  Launch(CUgraphExec executable, std::uint64_t devices, Run run, const char* function) noexcept
      : executable_(executable), devices_(devices), run_(run), function_(function) {}

  /// Charges the most that the launch can take, and makes the call. No other launch is made on the same devices
  /// meanwhile. If the book grants the bytes and the driver does not have them, sets `refused` to their number.
  template <typename Call>
  CUresult make(Call&& call, Bytes& refused) noexcept {
    if (!enter()) return CUDA_ERROR_OUT_OF_MEMORY;
    Need before[kMaxDevices];
    each_device(devices_, [&](CUdevice device) { before[device] = begin(device); });
    const CUresult result = call();
    Bytes entered;
    each_device(devices_, [&](CUdevice device) {
      entered += entries_[device].entered;
      end(device, before[device], result == CUDA_SUCCESS);
    });
    unlock();
    if (result == CUDA_ERROR_OUT_OF_MEMORY) refused = std::max(entered, kGranule);
    return result;
  }

 private:
  struct Entry {
    Bytes entered;
    Bytes peak_before = kUnlimited;
  };

  void lock() noexcept {
    each_device(devices_, [](CUdevice device) { ::pthread_mutex_lock(&graph_pools[device].launching); });
  }
  void unlock() noexcept {
    each_device(devices_, [](CUdevice device) { ::pthread_mutex_unlock(&graph_pools[device].launching); });
  }

  /// Enters the missing bytes on every device. Returns true, with the devices locked, if all fit. No device is locked
  /// while the request waits for memory.
  bool enter() noexcept {
    for (;;) {
      lock();
      CUdevice lacking = -1;
      Bytes missing;
      each_device(devices_, [&](CUdevice device) {
        if (lacking >= 0) return;
        if (enter_on(device, missing)) return;
        trim(device);
        if (!enter_on(device, missing)) lacking = device;
      });
      if (lacking < 0) return true;
      unlock();
      // A pool that was trimmed meanwhile needs more than before, so this tries again.
      if (!note(lacking, missing, admit_on(lacking, missing, Kind::kPool, function_))) break;
    }
    each_device(devices_, [&](CUdevice device) {
      const Entry& entry = entries_[device];
      take_back(account_of(device), entry.entered, Kind::kPool, entry.peak_before);
    });
    return false;
  }

  bool enter_on(CUdevice device, Bytes& missing) noexcept {
    missing = missing_on(device);
    return missing == Bytes{0} || note(device, missing, admit_quietly(account_of(device), missing, Kind::kPool));
  }

  Bytes missing_on(CUdevice device) noexcept {
    Need need;
    if (!needs.find(part_key(executable_, device), need)) return kUnlimited;  // the executable graph is being destroyed
    const Bytes growth = growth_of(need, device, run_ == Run::kUpload);
    return growth - std::min(growth, entries_[device].entered);
  }

  bool note(CUdevice device, Bytes size, bool admitted) noexcept {
    if (!admitted) return false;
    Entry& entry = entries_[device];
    entry.entered += size;
    entry.peak_before = std::min(entry.peak_before, peak_before_admission());
    return true;
  }

  /// Begins a launch or upload. Bytes that a former launch left and that are freed from now on count for the next
  /// launch. Returns the former need, for end().
  Need begin(CUdevice device) noexcept {
    GraphPool& pool = graph_pools[device];
    {
      const SpinGuard guard(pool.reserving);
      pool.charged += entries_[device].entered;
    }
    Need before;
    needs.update(part_key(executable_, device), [&](Need& need) {
      before = need;
      if (run_ == Run::kLaunch) {
        need.left = need.leaves;
        ++need.launches;
      }
      return need.most > 0;
    });
    return before;
  }

  void end(CUdevice device, const Need& before, bool succeeded) noexcept {
    GraphPool& pool = graph_pools[device];
    const Bytes unforeseen = follow(device, entries_[device].entered, entries_[device].peak_before);
    needs.update(part_key(executable_, device), [&](Need& need) {
      need.most += unforeseen.count();  // this driver needs more than the schedule's bound
      if (!succeeded) {
        need.left = before.left;
        need.launches = before.launches;
        return need.most > 0;
      }
      need.is_uploaded = run_ == Run::kUpload;
      if (need.is_uploaded || need.leaves > 0) ++pool.generation;
      need.generation = pool.generation;
      return need.most > 0;
    });
  }

  CUgraphExec executable_;
  std::uint64_t devices_;
  Run run_;
  const char* function_;
  Entry entries_[kMaxDevices];
};

/// Records that the allocation was freed after its graph's last launch.
void was_freed(std::uint64_t address) noexcept {
  Left left;
  if (!lefts.find(address, left)) return;
  std::uint32_t launches = 0;
  needs.update(part_key(reinterpret_cast<CUgraphExec>(left.executable), left.device), [&](Need& need) {
    launches = need.launches;
    if (left.freed_after != launches) need.left -= std::min(need.left, left.bytes);
    return need.most > 0;
  });
  lefts.update(address, [&](Left& known) {
    known.freed_after = launches;
    return known.executable != 0;
  });
}

template <typename Call>
CUresult run(CUgraphExec handle, Run run, const char* function, Call&& call) noexcept {
  Executable executable;
  if (!any_memory_nodes.load(std::memory_order_acquire) || !governed() ||
      !executables.find(reinterpret_cast<std::uint64_t>(handle), executable))
    return call();
  const CUdevice first = executable.devices != 0 ? std::countr_zero(executable.devices) : 0;
  Recorded event(trace::Kind::kGraph);
  const CUresult result = while_device_is_full(account_of(first), function, [&](Bytes& refused) {
    return Launch(handle, executable.devices, run, function).make(call, refused);
  });
  event.failed(result, account_of(first));
  if (result == CUDA_SUCCESS) event.done(reinterpret_cast<std::uint64_t>(handle), account_of(first));
  if (result != CUDA_SUCCESS || run == Run::kUpload) return result;
  for (std::uint64_t part = 0, address = 0; part < executable.frees; ++part) {
    if (freed_by.find(part_key(handle, part), address)) was_freed(address);
  }
  return result;
}

/// Records the memory that the graph takes. Returns false if that memory cannot be determined.
bool learn(CUgraphExec handle, CUgraph graph, Executable& executable) noexcept {
  GraphSchedule schedule;
  if (!read_graph(graph, schedule)) return false;
  schedule.settle();
  if (!schedule.is_whole() || schedule.frees_of_others().size() >= kMostParts) return false;
  bool all_noted = true;
  for (const GraphSchedule::Allocation& allocation : schedule.allocations()) {
    if (allocation.device < 0 || allocation.device >= kMaxDevices) return false;
    executable.devices |= std::uint64_t{1} << allocation.device;
  }
  each_device(executable.devices, [&](CUdevice device) {
    Need need;
    need.most = schedule.most(device);
    for (const GraphSchedule::Allocation& allocation : schedule.allocations()) {
      if (allocation.device != device || allocation.freed_at != GraphSchedule::kNever) continue;
      need.leaves += allocation.bytes;
      const Left left{reinterpret_cast<std::uint64_t>(handle), allocation.bytes, device, 0};
      all_noted = lefts.insert(allocation.address, left) && all_noted;
    }
    all_noted = needs.insert(part_key(handle, device), need) && all_noted;
  });
  for (const std::uint64_t address : schedule.frees_of_others())
    all_noted = freed_by.insert(part_key(handle, executable.frees++), address) && all_noted;
  return executables.insert(reinterpret_cast<std::uint64_t>(handle), executable) && all_noted;
}

/// Forgets the executable graph and the owner of the memory that it left.
void unlearn(CUgraphExec handle, const Executable& executable) noexcept {
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  Executable gone;
  (void)executables.take(key, gone);
  bool any_left = false;
  each_device(executable.devices, [&](CUdevice device) {
    Need need;
    any_left = (needs.take(part_key(handle, device), need) && need.leaves > 0) || any_left;
  });
  for (std::uint64_t part = 0, address = 0; part < executable.frees; ++part)
    (void)freed_by.take(part_key(handle, part), address);
  if (any_left) lefts.remove_if([&](std::uint64_t, const Left& left) { return left.executable == key; });
}

template <typename Call>
CUresult instantiate(CUgraphExec* out, CUgraph graph, const char* function, Call&& call) noexcept {
  const CUresult result = call();
  if (result != CUDA_SUCCESS || !governed() || !has_memory_nodes(graph)) return result;
  any_memory_nodes.store(true, std::memory_order_release);
  Executable executable;
  if (learn(*out, graph, executable)) return result;
  unlearn(*out, executable);
  real<cuGraphExecDestroy_t>(Symbol::cuGraphExecDestroy)(*out);
  (void)admit(current_place().account, kUnlimited, Kind::kPool, function);  // records the denial
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// Visits each device whose graph pool is charged. Waits for launch calls that other threads are making, at most 0.2 s
/// in all, and skips a device whose lock is not available by then. Does not wait for work on the device.
template <typename Visit>
void each_charged_pool(Visit&& visit) noexcept {
  constexpr long kPatienceNs = 200'000'000;
  timespec end{};
  ::clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += kPatienceNs;
  if (end.tv_nsec >= 1'000'000'000) end = {end.tv_sec + 1, end.tv_nsec - 1'000'000'000};
  for (CUdevice device = 0; device < kMaxDevices; ++device) {
    GraphPool& pool = graph_pools[device];
    if (pool.charged == Bytes{0} || ::pthread_mutex_timedlock(&pool.launching, &end) != 0) continue;
    visit(device);
    ::pthread_mutex_unlock(&pool.launching);
  }
}

}  // namespace

void trim_graph_pools() noexcept {
  if (!any_memory_nodes.load(std::memory_order_acquire)) return;
  const WhileOthersCapture relaxed;
  each_charged_pool(trim);
}

void graph_allocation_was_freed(CUdeviceptr address) noexcept {
  if (any_memory_nodes.load(std::memory_order_acquire)) was_freed(address);
}

void refresh_graph_pools() noexcept {
  if (!any_memory_nodes.load(std::memory_order_acquire)) return;
  each_charged_pool([](CUdevice device) { follow(device); });
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  executables.abandon();
  needs.abandon();
  lefts.abandon();
  freed_by.abandon();
  for (GraphPool& pool : graph_pools) {
    pool.reserving.unlock();
    ::pthread_mutex_init(&pool.launching, nullptr);
    pool.charged = Bytes{0};
  }
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

RATION_HOOK CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                                        std::size_t size) {
  return instantiate(out, graph, __func__, [&] {
    return real<cuGraphInstantiate_t>(Symbol::cuGraphInstantiate)(out, graph, error_node, log, size);
  });
}
RATION_HOOK CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                                           std::size_t size) {
  return instantiate(out, graph, __func__, [&] {
    return real<cuGraphInstantiate_t>(Symbol::cuGraphInstantiate_v2)(out, graph, error_node, log, size);
  });
}
RATION_HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, __func__, [&] {
    return real<cuGraphInstantiateWithFlags_t>(Symbol::cuGraphInstantiateWithFlags)(out, graph, flags);
  });
}
namespace {

/// Instantiates a graph. If the flags ask for an upload, makes the upload as a separate call, because it takes memory
/// that must be admitted.
CUresult instantiate_with(Symbol symbol, Symbol upload, CUgraphExec* out, CUgraph graph,
                          CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) noexcept {
  auto* call_real = real<cuGraphInstantiateWithParams_t>(symbol);
  constexpr const char* kFunction = "cuGraphInstantiateWithParams";
  if (parameters == nullptr || !governed() || (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0)
    return instantiate(out, graph, kFunction, [&] { return call_real(out, graph, parameters); });
  CUDA_GRAPH_INSTANTIATE_PARAMS apart = *parameters;
  apart.flags &= ~static_cast<cuuint64_t>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  CUresult result = instantiate(out, graph, kFunction, [&] { return call_real(out, graph, &apart); });
  parameters->hErrNode_out = apart.hErrNode_out;
  parameters->result_out = apart.result_out;
  if (result != CUDA_SUCCESS) return result;
  const CUstream stream = parameters->hUploadStream;
  result = run(*out, Run::kUpload, kFunction, [&] { return real<cuGraphUpload_t>(upload)(*out, stream); });
  if (result == CUDA_SUCCESS) return result;
  if (Executable executable; executables.find(reinterpret_cast<std::uint64_t>(*out), executable))
    unlearn(*out, executable);
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

#define RATION_RUN(name, what)                                                                                         \
  RATION_HOOK CUresult name(CUgraphExec executable, CUstream stream) {                                                 \
    return run(executable, Run::what, #name, [&] { return real<cuGraphLaunch_t>(Symbol::name)(executable, stream); }); \
  }
RATION_RUN(cuGraphLaunch, kLaunch)
RATION_RUN(cuGraphLaunch_ptsz, kLaunch)
RATION_RUN(cuGraphUpload, kUpload)
RATION_RUN(cuGraphUpload_ptsz, kUpload)
#undef RATION_RUN

RATION_HOOK CUresult cuGraphExecDestroy(CUgraphExec handle) {
  auto* call_real = real<cuGraphExecDestroy_t>(Symbol::cuGraphExecDestroy);
  Executable executable;
  if (!any_memory_nodes.load(std::memory_order_acquire) || !governed() ||
      !executables.find(reinterpret_cast<std::uint64_t>(handle), executable))
    return call_real(handle);
  unlearn(handle, executable);  // comes before the call, after which the driver may give another thread the same handle
  const CUresult result = call_real(handle);
  // If the driver kept the graph, puts its entry back without its needs, so that each launch is denied.
  if (result != CUDA_SUCCESS) executables.insert(reinterpret_cast<std::uint64_t>(handle), executable);
  refresh_graph_pools();
  return result;
}

RATION_HOOK CUresult cuDeviceGraphMemTrim(CUdevice device) {
  auto* call_real = real<cuDeviceGraphMemTrim_t>(Symbol::cuDeviceGraphMemTrim);
  if (!governed() || device < 0 || device >= kMaxDevices) return call_real(device);
  GraphPool& pool = graph_pools[device];
  ::pthread_mutex_lock(&pool.launching);
  const CUresult result = call_real(device);
  ++pool.generation;
  follow(device);
  ::pthread_mutex_unlock(&pool.launching);
  return result;
}
