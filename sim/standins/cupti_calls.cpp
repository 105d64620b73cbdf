#include "cupti_calls.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/system_calls.hpp"
#include "standin.hpp"

namespace ration::standin::cupti {

using sim::Memory;
using sim::Operation;
using sim::Work;

Subscriber subscriber;
std::atomic<bool> system_threads{false};

namespace {

constexpr Call kCalls[] = {
    {"cuArray3DCreate_v2", 274},
    {"cuArrayCreate_v2", 272},
    {"cuArrayDestroy", 89},
    {"cuGraphLaunch", 514},
    {"cuLaunchCooperativeKernel", 477},
    {"cuLaunchKernel", 307},
    {"cuLaunchKernelEx", 652},
    {"cuMemAllocAsync", 598},
    {"cuMemAllocFromPoolAsync", 611},
    {"cuMemAllocHost_v2", 294},
    {"cuMemAllocManaged", 371},
    {"cuMemAllocPitch_v2", 244},
    {"cuMemAlloc_v2", 243},
    {"cuMemFreeAsync", 600},
    {"cuMemFreeHost", 38},
    {"cuMemFree_v2", 245},
    {"cuMemHostAlloc", 39},
    {"cuMemcpy", 305},
    {"cuMemcpy2DAsync_v2", 289},
    {"cuMemcpy2DUnaligned_v2", 288},
    {"cuMemcpy2D_v2", 287},
    {"cuMemcpy3DAsync_v2", 291},
    {"cuMemcpy3DPeer", 320},
    {"cuMemcpy3DPeerAsync", 321},
    {"cuMemcpy3D_v2", 290},
    {"cuMemcpyAsync", 306},
    {"cuMemcpyAtoA_v2", 286},
    {"cuMemcpyAtoD_v2", 284},
    {"cuMemcpyAtoH_v2", 282},
    {"cuMemcpyDtoA_v2", 285},
    {"cuMemcpyDtoDAsync_v2", 281},
    {"cuMemcpyDtoD_v2", 280},
    {"cuMemcpyDtoHAsync_v2", 279},
    {"cuMemcpyDtoH_v2", 278},
    {"cuMemcpyHtoA_v2", 292},
    {"cuMemcpyHtoDAsync_v2", 277},
    {"cuMemcpyHtoD_v2", 276},
    {"cuMemcpyPeer", 318},
    {"cuMemcpyPeerAsync", 319},
    {"cuMemsetD16Async", 218},
    {"cuMemsetD16_v2", 250},
    {"cuMemsetD2D16Async", 224},
    {"cuMemsetD2D16_v2", 253},
    {"cuMemsetD2D32Async", 226},
    {"cuMemsetD2D32_v2", 254},
    {"cuMemsetD2D8Async", 222},
    {"cuMemsetD2D8_v2", 252},
    {"cuMemsetD32Async", 220},
    {"cuMemsetD32_v2", 251},
    {"cuMemsetD8Async", 216},
    {"cuMemsetD8_v2", 249},
};

/// The functions of CUDA's runtime. Each name ends in the version of CUDA that introduced this form.
constexpr Call kRuntimeCalls[] = {
    {"cudaDeviceSynchronize_v3020", 165},
    {"cudaEventElapsedTime_v3020", 139},
    {"cudaEventQuery_v3020", 138},
    {"cudaEventRecord_v3020", 135},
    {"cudaEventRecordWithFlags_v11010", 370},
    {"cudaEventSynchronize_v3020", 137},
    {"cudaFree_v3020", 22},
    {"cudaFreeAsync_v11020", 375},
    {"cudaFreeHost_v3020", 26},
    {"cudaGraphLaunch_v10000", 311},
    {"cudaHostAlloc_v3020", 27},
    {"cudaHostRegister_v4000", 152},
    {"cudaHostUnregister_v4000", 153},
    {"cudaLaunchCooperativeKernel_v9000", 269},
    {"cudaLaunchKernelExC_v11060", 430},
    {"cudaLaunchKernel_v7000", 211},
    {"cudaMalloc_v3020", 20},
    {"cudaMallocAsync_v11020", 373},
    {"cudaMallocFromPoolAsync_v11020", 391},
    {"cudaMallocHost_v3020", 25},
    {"cudaMallocManaged_v6000", 206},
    {"cudaMallocPitch_v3020", 21},
    {"cudaMemcpy2D_v3020", 32},
    {"cudaMemcpy2DAsync_v3020", 44},
    {"cudaMemcpy2DFromArray_v3020", 35},
    {"cudaMemcpy2DToArray_v3020", 34},
    {"cudaMemcpy3D_v3020", 144},
    {"cudaMemcpy3DAsync_v3020", 145},
    {"cudaMemcpy_v3020", 31},
    {"cudaMemcpyAsync_v3020", 41},
    {"cudaMemcpyFromSymbol_v3020", 40},
    {"cudaMemcpyFromSymbolAsync_v3020", 48},
    {"cudaMemcpyPeerAsync_v4000", 161},
    {"cudaMemcpyPeer_v4000", 160},
    {"cudaMemcpyToSymbol_v3020", 39},
    {"cudaMemcpyToSymbolAsync_v3020", 47},
    {"cudaMemset2D_v3020", 50},
    {"cudaMemset2DAsync_v3020", 52},
    {"cudaMemset3D_v3020", 142},
    {"cudaMemset3DAsync_v3020", 143},
    {"cudaMemset_v3020", 49},
    {"cudaMemsetAsync_v3020", 51},
    {"cudaStreamQuery_v3020", 132},
    {"cudaStreamSynchronize_v3020", 131},
    {"cudaStreamWaitEvent_v3020", 147},
};

/// Returns the name without its suffix, such as `_v2`, `_ptsz` or `_v3020`.
std::string_view base(std::string_view name) { return name.substr(0, name.find('_')); }

std::span<const Call> calls_of(std::uint32_t domain) {
  if (domain == kRuntimeDomain) return kRuntimeCalls;
  return domain == kDriverDomain ? std::span<const Call>(kCalls) : std::span<const Call>{};
}

/// Keeps a name longer than its module exists, since programs read names of kernels in records.
const char* kept(const char* name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string, std::less<>>;
  const std::lock_guard guard(mutex);
  const auto found = names->find(std::string_view(name));
  return (found != names->end() ? found : names->emplace(name).first)->c_str();
}

std::uint32_t thread_number() {
  return system_threads
             ? static_cast<std::uint32_t>(this_thread_id())
             : static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(reinterpret_cast<void*>(::pthread_self())));
}

/// The external ids that each thread has pushed. They have no destructor, since programs call the driver while a thread
/// ends.
using External = std::map<std::uint32_t, std::vector<std::uint64_t>>;
thread_local External* external = nullptr;
thread_local std::uint32_t open_correlation = 0;  // the number of the call in progress
thread_local bool in_driver = false;              // true during a driver call

// The values that an operation keeps from its beginning to its end.
enum Own { kStart, kCorrelation, kCallbackData, kAllocatedAt, kIsOutermost, kIsOwnCall };

/// The observed allocations with their requested bytes and times. The size of other allocations comes from the driver.
class Allocated {
 public:
  void add(std::uint64_t address, std::uint64_t bytes, std::uint64_t start) {
    const std::lock_guard guard(mutex_);
    blocks_[address] = {bytes, start};
  }
  /// Removes the block that a free names. Called before the driver frees the block, because another thread may get the
  /// same address afterwards.
  void take_out(Operation& operation) {
    const std::lock_guard guard(mutex_);
    const auto found = blocks_.find(operation.address);
    if (found == blocks_.end()) return;
    operation.bytes = found->second.bytes;
    operation.own[kAllocatedAt] = found->second.start;
    blocks_.erase(found);
  }

 private:
  struct Block {
    std::uint64_t bytes, start;
  };
  std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
};
Allocated& allocated() {
  static auto* all = new Allocated;  // never destroyed: atexit handlers call the driver
  return *all;
}

struct Times {
  std::uint64_t start, end;
};
/// Returns the times on the device.
Times times_of(const Operation& operation, std::uint64_t end) {
  if (operation.ends == 0) return {operation.own[kStart], end};
  return {std::max(operation.own[kStart], at(operation.begins)), at(operation.ends)};
}

std::uint8_t copy_kind(const Operation& operation) {
  const auto side = [](Memory memory) {
    return memory == Memory::kArray ? 'A' : memory == Memory::kPageable || memory == Memory::kPinned ? 'H' : 'D';
  };
  const char sides[] = {side(operation.source_memory), side(operation.memory)};
  static constexpr const char* kKinds[] = {"", "HD", "DH", "HA", "AH", "AA", "AD", "DA", "DD", "HH"};
  const auto found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const char* kind) { return std::memcmp(kind, sides, 2) == 0; });
  return static_cast<std::uint8_t>(found - std::begin(kKinds));
}

constexpr std::uint8_t kPeerToPeer = 10;

void write_copy(const Operation& operation, const Times& times) {
  const std::uint32_t context = context_number(operation.context);
  const auto source = static_cast<std::uint8_t>(operation.source_memory);
  const auto target = static_cast<std::uint8_t>(operation.memory);
  const auto stream = static_cast<std::uint32_t>(operation.stream_id);
  const auto correlation = static_cast<std::uint32_t>(operation.own[kCorrelation]);
  const auto device = static_cast<std::uint32_t>(operation.device);
  if (operation.source_device != operation.target_device) {
    PeerCopyRecord record{};
    record.copy_kind = kPeerToPeer;
    record.source_kind = source;
    record.target_kind = target;
    record.flags = operation.is_async;
    record.bytes = operation.bytes;
    record.start = times.start;
    record.end = times.end;
    record.device = device;
    record.context = record.source_context = record.target_context = context;
    record.stream = stream;
    record.source_device = static_cast<std::uint32_t>(operation.source_device);
    record.target_device = static_cast<std::uint32_t>(operation.target_device);
    record.correlation = correlation;
    // Programs that want copies get those between peers, too.
    if (wants(Kind::kPeerCopy) || wants(Kind::kCopy)) write(&record, sizeof record);
    return;
  }
  CopyRecord record{};
  record.copy_kind = copy_kind(operation);
  record.source_kind = source;
  record.target_kind = target;
  record.flags = operation.is_async;
  record.bytes = operation.bytes;
  record.start = times.start;
  record.end = times.end;
  record.device = device;
  record.context = context;
  record.stream = stream;
  record.correlation = correlation;
  write(record);
}

void write_fill(const Operation& operation, const Times& times) {
  FillRecord record{};
  record.value = static_cast<std::uint32_t>(operation.value);
  record.bytes = operation.bytes;
  record.start = times.start;
  record.end = times.end;
  record.device = static_cast<std::uint32_t>(operation.device);
  record.context = context_number(operation.context);
  record.stream = static_cast<std::uint32_t>(operation.stream_id);
  record.correlation = static_cast<std::uint32_t>(operation.own[kCorrelation]);
  record.flags = operation.is_async;
  record.memory_kind = static_cast<std::uint16_t>(operation.memory);
  write(record);
}

void write_kernel(const Operation& operation, const Times& times) {
  KernelRecord record{};
  if (!wants(record.kind)) record.kind = Kind::kKernel;
  record.start = times.start;
  record.end = record.completed = times.end;
  record.device = static_cast<std::uint32_t>(operation.device);
  record.context = context_number(operation.context);
  record.stream = static_cast<std::uint32_t>(operation.stream_id);
  for (int axis = 0; axis < 3; ++axis) {
    record.grid[axis] = static_cast<std::int32_t>(operation.grid[axis]);
    record.block[axis] = static_cast<std::int32_t>(operation.block[axis]);
  }
  record.dynamic_shared = static_cast<std::int32_t>(operation.shared);
  record.correlation = static_cast<std::uint32_t>(operation.own[kCorrelation]);
  record.grid_id = record.correlation;
  record.name = kept(operation.name);
  record.launch_type = base(operation.function) == "cuLaunchCooperativeKernel";
  write(record);
}

void write_graph(const Operation& operation, const Times& times) {
  GraphRecord record{};
  record.correlation = static_cast<std::uint32_t>(operation.own[kCorrelation]);
  record.start = times.start;
  record.end = times.end;
  record.device = record.end_device = static_cast<std::uint32_t>(operation.device);
  record.graph = context_number(reinterpret_cast<const void*>(operation.address));
  record.context = record.end_context = context_number(operation.context);
  record.stream = static_cast<std::uint32_t>(operation.stream_id);
  write(record);
}

void describe_pool(const Operation& operation, Memory2Record& record) {
  auto* ask = driver<cuda::CUresult(cuda::CUmemoryPool, int, std::uint64_t*)>("cuMemPoolGetAttribute");
  constexpr int kThreshold = 4, kReserved = 5, kUsed = 7;
  constexpr std::uint32_t kLocal = 1;
  if (operation.pool == nullptr || ask == nullptr) return;
  record.pool_type = kLocal;
  record.pool_address = reinterpret_cast<std::uint64_t>(operation.pool);
  ask(operation.pool, kThreshold, &record.pool_threshold);
  ask(operation.pool, kReserved, &record.pool_size);
  ask(operation.pool, kUsed, &record.pool_used);
}

void write_memory(const Operation& operation, const Times& times) {
  const bool is_free = operation.work == Work::kFree;
  const std::uint64_t address = is_free ? operation.address : *operation.out;
  if (address == 0) return;
  if (!is_free) allocated().add(address, operation.bytes, times.start);
  constexpr std::uint32_t kAllocation = 1, kRelease = 2;
  Memory2Record record{};
  record.operation = is_free ? kRelease : kAllocation;
  record.memory_kind = static_cast<std::uint32_t>(operation.memory);
  record.correlation = static_cast<std::uint32_t>(operation.own[kCorrelation]);
  record.address = address;
  record.bytes = operation.bytes;
  record.timestamp = times.start;
  record.process = static_cast<std::uint32_t>(::getpid());
  record.device = static_cast<std::uint32_t>(operation.device);
  record.context = context_number(operation.context);
  record.stream = operation.is_async ? static_cast<std::uint32_t>(operation.stream_id) : kNoStream;
  record.is_async = operation.is_async;
  if (wants(Kind::kMemory2)) describe_pool(operation, record);
  write(record);
  if (!is_free || operation.own[kAllocatedAt] == 0) return;
  MemoryRecord both{};
  both.memory_kind = record.memory_kind;
  both.address = address;
  both.bytes = operation.bytes;
  both.start = operation.own[kAllocatedAt];
  both.end = times.end;
  both.process = record.process;
  both.device = record.device;
  both.context = record.context;
  write(both);
}

void write_call(const Operation& operation, std::uint64_t end) {
  const bool is_of_runtime = operation.work == Work::kRuntime;
  const Call* call = call_named(is_of_runtime ? kRuntimeDomain : kDriverDomain, operation.function);
  if (call == nullptr) return;
  CallRecord record{};
  record.kind = is_of_runtime ? Kind::kRuntime : Kind::kDriver;
  record.function = call->number;
  record.start = operation.own[kStart];
  record.end = end;
  record.process = static_cast<std::uint32_t>(::getpid());
  record.thread = thread_number();
  record.correlation = static_cast<std::uint32_t>(operation.own[kCorrelation]);
  record.result = static_cast<std::uint32_t>(operation.result);
  write(record);
}

void write_external(std::uint32_t correlation) {
  if (external == nullptr) return;
  for (const auto& [kind, numbers] : *external) {
    ExternalCorrelationRecord record{};
    record.external_kind = kind;
    record.external = numbers.back();
    record.correlation = correlation;
    write(record);
  }
}

/// The arguments of the driver's function, in their order.
struct Parameters {
  std::uint64_t words[12] = {};
  struct {
    unsigned grid[3], block[3], shared;
    cuda::CUstream stream;
    void* attributes;
    unsigned count;
  } launch{};
  std::uint64_t pitch = 0;
};

void fill_in(Parameters& parameters, const Operation& operation) {
  std::uint64_t* word = parameters.words;
  const auto number = [](const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); };
  const std::string_view name = base(operation.function);
  const auto put = [&](std::initializer_list<std::uint64_t> values) { std::copy(values.begin(), values.end(), word); };
  const std::uint64_t stream = number(operation.stream), pool = number(operation.pool);
  switch (operation.work) {
    case Work::kAllocate:
      parameters.pitch = operation.bytes;
      if (name == "cuMemAllocPitch")
        put({number(operation.out), number(&parameters.pitch), operation.bytes, 1});
      else if (name == "cuMemAllocFromPoolAsync")
        put({number(operation.out), operation.bytes, pool, stream});
      else
        put({number(operation.out), operation.bytes, stream});
      break;
    case Work::kFree:
      put({operation.address, stream});
      break;
    case Work::kCopy:
      if (operation.copy != nullptr)
        put({number(operation.copy), stream});
      else if (name.starts_with("cuMemcpyPeer"))
        put({operation.address, number(operation.context), operation.source, number(operation.context), operation.bytes,
             stream});
      else
        put({operation.address, operation.source, operation.bytes, stream});
      break;
    case Work::kFill:
      if (name.starts_with("cuMemsetD2D"))
        put({operation.address, operation.pitch, operation.value, operation.width, operation.height, stream});
      else
        put({operation.address, operation.value, operation.width, stream});
      break;
    case Work::kLaunch:
      std::copy_n(operation.grid, 3, parameters.launch.grid);
      std::copy_n(operation.block, 3, parameters.launch.block);
      parameters.launch.shared = operation.shared;
      parameters.launch.stream = operation.stream;
      if (name == "cuLaunchKernelEx") {
        put({number(&parameters.launch), number(operation.kernel), number(operation.arguments)});
      } else {
        word[0] = number(operation.kernel);
        std::memcpy(word + 1, &parameters.launch, 7 * sizeof(unsigned));
        word[5] = stream;
        word[6] = number(operation.arguments);
      }
      break;
    case Work::kGraph:
      put({operation.address, stream});
      break;
    case Work::kRuntime:
      break;
  }
}

void call_back(Operation& operation, bool is_exit) {
  const Callback callback = subscriber.callback;
  const Call* call = callback == nullptr ? nullptr : call_named(kDriverDomain, operation.function);
  if (call == nullptr || !subscriber.wants[call->number] || base(call->name).starts_with("cuArray")) return;
  Parameters parameters;
  fill_in(parameters, operation);
  CallbackData data;
  data.is_exit = is_exit;
  data.function = call->name;
  data.parameters = parameters.words;
  data.result = is_exit ? &operation.result : nullptr;
  data.kernel = operation.name;
  data.context = operation.context;
  data.context_number = context_number(operation.context);
  data.data = &operation.own[kCallbackData];
  data.correlation = static_cast<std::uint32_t>(operation.own[kCorrelation]);
  callback(subscriber.user, kDriverDomain, call->number, &data);
}

/// Begins an operation. If another call causes the operation, the operation has the number of that call. Such are
/// driver calls inside a runtime function, and the work of a graph inside its launch.
void begin(Operation& operation) {
  static std::atomic<std::uint32_t> correlations{0};
  operation.own[kStart] = now();
  operation.own[kIsOutermost] = open_correlation == 0;
  operation.own[kIsOwnCall] = operation.work != Work::kRuntime && !in_driver;
  if (open_correlation == 0) open_correlation = ++correlations;
  operation.own[kCorrelation] = open_correlation;
  if (operation.own[kIsOwnCall] != 0) {
    in_driver = true;
    call_back(operation, false);
  }
  if (operation.work == Work::kFree) allocated().take_out(operation);
}

void end(Operation& operation) {
  const std::uint64_t end = now();
  if (operation.own[kIsOutermost] != 0) {
    write_external(open_correlation);
    write_call(operation, end);
  }
  if (operation.result == cuda::CUDA_SUCCESS && !operation.is_captured) {
    const Times times = times_of(operation, end);
    switch (operation.work) {
      case Work::kAllocate:
      case Work::kFree:
        write_memory(operation, times);
        break;
      case Work::kCopy:
        if (operation.bytes > 0) write_copy(operation, times);
        break;
      case Work::kFill:
        if (operation.bytes > 0) write_fill(operation, times);
        break;
      case Work::kLaunch:
        write_kernel(operation, times);
        break;
      case Work::kGraph:
        write_graph(operation, times);
        break;
      case Work::kRuntime:
        break;
    }
  } else if (operation.own[kAllocatedAt] != 0) {
    allocated().add(operation.address, operation.bytes, operation.own[kAllocatedAt]);
  }
  if (operation.own[kIsOwnCall] != 0) {
    call_back(operation, true);
    in_driver = false;
  }
  if (operation.own[kIsOutermost] != 0) open_correlation = 0;
}

}  // namespace

const Call* call_named(std::uint32_t domain, const char* function) {
  for (const Call& call : calls_of(domain))
    if (base(call.name) == base(function)) return &call;
  return nullptr;
}

const Call* call_numbered(std::uint32_t domain, std::uint32_t number) {
  for (const Call& call : calls_of(domain))
    if (call.number == number) return &call;
  return nullptr;
}

void observe(Operation* operation, int is_done) {
  if (is_done != 0)
    end(*operation);
  else
    begin(*operation);
}

void push_external(std::uint32_t kind, std::uint64_t number) {
  if (external == nullptr) external = new External;
  (*external)[kind].push_back(number);
}

bool pop_external(std::uint32_t kind, std::uint64_t* last) {
  if (external == nullptr) return false;
  const auto found = external->find(kind);
  if (found == external->end()) return false;
  if (last != nullptr) *last = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) external->erase(found);
  if (external->empty()) {
    delete external;
    external = nullptr;
  }
  return true;
}

std::uint32_t context_number(const void* context) {
  static std::mutex mutex;
  static auto* numbers = new std::map<const void*, std::uint32_t>;
  const std::lock_guard guard(mutex);
  return numbers->emplace(context, static_cast<std::uint32_t>(numbers->size() + 1)).first->second;
}

}  // namespace ration::standin::cupti
