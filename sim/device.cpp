// Initialisation, devices and contexts of the simulated driver.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_set>

#include "base/strings.hpp"
#include "capture.hpp"
#include "driver.hpp"
#include "graph_memory.hpp"
#include "managed.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

namespace ration::sim {

thread_local constinit ContextStack context_stack{};

Driver& driver() {
  static auto* instance = new Driver;
  return *instance;
}

Context* current() { return context_stack.empty() ? nullptr : context_stack.back(); }

int node_device(cuda::CUdevice ordinal) {
  const auto& visible = driver().visible;
  return ordinal >= 0 && ordinal < static_cast<int>(visible.size()) ? visible[static_cast<std::size_t>(ordinal)] : -1;
}

cuda::CUdevice ordinal_of(int device) {
  const auto& visible = driver().visible;
  return static_cast<cuda::CUdevice>(std::find(visible.begin(), visible.end(), device) - visible.begin());
}

namespace {

/// The primary context of one device of this process. A thread takes the lock before it checks whether the context
/// exists, and holds the lock until it has made or ended the context. Each device has its own lock, so that calls for
/// different devices do not wait for each other.
struct Primary {
  std::mutex lock;
  Context context;
};
Primary& primary_of(cuda::CUdevice ordinal) {
  static auto* all = new Primary[kMaxDevices];  // never destroyed: atexit handlers call the driver
  return all[ordinal];
}

// Returns the devices in the driver's order: the fastest first, or the order of the bus if CUDA_DEVICE_ORDER asks for
// it.
std::vector<int> in_order(const Node& node) {
  std::vector<int> order(node.models().size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int device) { return !node.finds(device); });
  const char* wanted = std::getenv("CUDA_DEVICE_ORDER");
  if (wanted != nullptr && std::strcmp(wanted, "PCI_BUS_ID") == 0) return order;
  const auto speed = [&](int device) {
    const Model& model = node.models()[static_cast<std::size_t>(device)];
    return std::tuple(model.capability_major, model.capability_minor, model.multiprocessors);
  };
  std::stable_sort(order.begin(), order.end(), [&](int left, int right) { return speed(left) > speed(right); });
  return order;
}

// Reduces the list to the first MIG instance in it, if there is any: "A single CUDA process can only enumerate a single
// MIG device" (MIG user guide, CUDA device enumeration), and a GPU in MIG mode is not a device.
void keep_one_instance(const Node& node, std::vector<int>& visible) {
  const auto is_instance = [&](int device) { return !node.models()[static_cast<std::size_t>(device)].profile.empty(); };
  const auto first = std::find_if(visible.begin(), visible.end(), is_instance);
  if (first != visible.end()) visible = {*first};
}

/// Returns true if no earlier device that this process sees belongs to the same GPU.
bool is_first_of_card(const Node& node, int device) {
  const auto card_of = [&](int each) { return node.models()[static_cast<std::size_t>(each)].card; };
  for (int before = 0; before < device; ++before)
    if (card_of(before) == card_of(device) && node.finds(before)) return false;
  return true;
}

// Returns the devices that CUDA_VISIBLE_DEVICES lists by index, UUID or beginning of a UUID, up to the first invalid
// entry. The index of a GPU in MIG mode means its first instance.
std::vector<int> chosen_devices(const Node& node) {
  std::vector<int> order = in_order(node);
  std::erase_if(order, [&](int device) { return !is_first_of_card(node, device); });
  const char* given = std::getenv("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) return order;
  std::vector<int> visible;
  for (const std::string_view part : split(given, ',')) {
    const std::string entry(part);
    int found = -1;
    if (entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0) {
      for (int device = 0; device < static_cast<int>(node.models().size()); ++device) {
        if (node.finds(device) && node.uuid_text(device).compare(0, entry.size(), entry) == 0)
          found = found == -1 ? device : -2;
      }
    } else if (!entry.empty() && entry.size() < 4 && entry.find_first_not_of("0123456789") == std::string::npos) {
      const auto index = static_cast<std::size_t>(std::atoi(entry.c_str()));
      if (index < order.size()) found = order[index];
    }
    if (found < 0) break;
    if (std::find(visible.begin(), visible.end(), found) != visible.end()) return {};  // listed twice: none is visible
    visible.push_back(found);
  }
  return visible;
}

std::vector<int> visible_devices(const Node& node) {
  std::vector<int> visible = chosen_devices(node);
  keep_one_instance(node, visible);
  return visible;
}

bool close(Context& context);

cuda::CUresult activate(Context& context) {
  {
    const Passage passage;
    if (calls_are_gated) {  // waits outside every lock, so that processes can make contexts at the same time
      if (const cuda::CUresult told = gate("context", 0); told != cuda::CUDA_SUCCESS) return told;
    }
    if (!Node::get()->take_context(context.device)) return cuda::CUDA_ERROR_OUT_OF_MEMORY;
    context.record = own_process->record;
    context.alive = true;
  }
  if (load_libraries(&context)) return cuda::CUDA_SUCCESS;
  close(context);
  return cuda::CUDA_ERROR_OUT_OF_MEMORY;
}

/// Returns true if this process has made the context. A child that the clone system call made has a record of its own
/// in the node, so it must make a context of its own.
bool is_made(const Context& context) {
  return context.alive && (context.record == own_process->record || !Node::get()->attach());
}

/// The contexts that programs may name: all that were ever made.
class Contexts {
 public:
  void add(const Context& context) {
    const std::lock_guard guard(lock_);
    known_.insert(&context);
  }
  /// Finds a context by its handle. Returns null if there never was such a context.
  Context* find(cuda::CUcontext handle) {
    auto* context = reinterpret_cast<Context*>(handle);
    const std::lock_guard guard(lock_);
    return known_.count(context) != 0 ? context : nullptr;
  }

 private:
  std::mutex lock_;
  std::unordered_set<const Context*> known_;
};
Contexts& contexts() {
  static auto* all = new Contexts;  // never destroyed: atexit handlers call the driver
  return *all;
}

/// Returns the version of the node's driver; without a node, that of the default driver. May be called before cuInit().
int driver_version() {
  if (const Node* node = Node::get(); node != nullptr) return node->spec().driver.cuda_version;
  DriverProfile usual;
  std::string problem;
  return find_driver("", usual, problem) ? usual.cuda_version : 0;
}

/// Closes a context. Returns false if it is closed already or another thread closes it.
bool close(Context& context) {
  {
    const std::lock_guard guard(driver().mutex);
    if (!context.alive.exchange(false)) return false;
  }
  clear_context(&context);
  forget_limits(&context);
  forget_stream_times(&context);
  if (context.primary) {
    const std::lock_guard guard(driver().mutex);
    clear_graph_memory(context.device);
  }
  {
    const Passage passage;
    Node::get()->give_context(context.device);
  }
  context_stack.erase(&context);
  return true;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

extern "C" int ration_sim_find(const char*, void**, int, std::uint64_t, int);

namespace {

/// Loads the library of a profiler or debugger that the environment names: "CUDA will load the object during
/// initialization and will run the function called 'InitializeInjection'" (CUPTI's sample profiling_injection).
void inject() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  void* library = path != nullptr ? ::dlopen(path, RTLD_NOW) : nullptr;
  auto* initialise =
      library != nullptr ? reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection")) : nullptr;
  if (initialise != nullptr) initialise();
}

CUresult initialise(unsigned int flags, bool& first) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& state = driver();
  const std::lock_guard guard(state.mutex);
  if (state.initialised) return state.forked ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
  if (std::string problem; !read_gates(problem)) {
    std::fprintf(stderr, "ration-sim: %s\n", problem.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (calls_are_gated) {
    if (const CUresult told = gate("cuInit", 0); told != CUDA_SUCCESS) return told;
  }
  Node* node = Node::get();
  if (node == nullptr || !node->open_memory() || !node->attach()) return CUDA_ERROR_OPERATING_SYSTEM;
  state.visible = visible_devices(*node);
  if (state.visible.empty()) return CUDA_ERROR_NO_DEVICE;
  for (std::size_t i = 0; i < state.visible.size(); ++i) {
    Context& context = primary_of(static_cast<CUdevice>(i)).context;
    context.device = state.visible[i], context.primary = true;
    contexts().add(context);
  }
  ::pthread_atfork(nullptr, nullptr, [] { driver().forked = true; });
  first = state.initialised = true;
  return CUDA_SUCCESS;
}

}  // namespace

RATION_ENTRY cuInit(unsigned int flags) {
  bool first = false;
  const CUresult result = initialise(flags, first);
  if (first) inject();
  return result;
}

RATION_ENTRY cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version();
  return CUDA_SUCCESS;
}

RATION_ENTRY cuGetProcAddress(const char* name, void** out, int version, std::uint64_t flags) {
  const int found = ration_sim_find(name, out, version, flags, driver_version());
  return found == 0 ? CUDA_SUCCESS : found == 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

RATION_ENTRY cuGetProcAddress_v2(const char* name, void** out, int version, std::uint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  const int found = ration_sim_find(name, out, version, flags, driver_version());
  if (status != nullptr) {
    *status = found == 0    ? CU_GET_PROC_ADDRESS_SUCCESS
              : found == -1 ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return found == 0 ? CUDA_SUCCESS : found == 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

RATION_ENTRY cuDeviceGetCount(int* count) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  *count = static_cast<int>(driver().visible.size());
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceGet(CUdevice* out, int ordinal) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(ordinal) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *out = ordinal;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceGetName(char* out, int size, CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(out, static_cast<std::size_t>(size), "%s",
                Node::get()->models()[static_cast<std::size_t>(node_device(device))].name.c_str());
  return CUDA_SUCCESS;
}

// Returns the UUID of the whole GPU. The CUDA driver API says only of cuDeviceGetUuid_v2(): "If the device is in MIG
// mode, returns its MIG UUID".
RATION_ENTRY cuDeviceGetUuid(CUuuid* out, CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  Node::get()->card_uuid(node_device(device), reinterpret_cast<unsigned char(&)[16]>(out->bytes));
  return CUDA_SUCCESS;
}
RATION_ENTRY cuDeviceGetUuid_v2(CUuuid* out, CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  Node::get()->uuid(node_device(device), reinterpret_cast<unsigned char(&)[16]>(out->bytes));
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceTotalMem_v2(std::size_t* out, CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *out = Node::get()->models()[static_cast<std::size_t>(node_device(device))].total.count();
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  auto& [lock, context] = primary_of(device);
  const std::lock_guard guard(lock);
  if (!is_made(context)) {
    if (const CUresult state = activate(context); state != CUDA_SUCCESS) return state;
  }
  ++context.retained;
  *out = reinterpret_cast<CUcontext>(&context);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  auto& [lock, context] = primary_of(device);
  const std::lock_guard guard(lock);
  if (context.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context.retained == 0) close(context);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

// Closes the primary context but keeps its retain count: its holders still have to release it, as without a reset:
// "Resetting the primary context does not release it" (CUDA driver API, primary context management).
RATION_ENTRY cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  auto& [lock, context] = primary_of(device);
  const std::lock_guard guard(lock);
  close(context);
  if (context.retained > 0 && !Node::get()->spec().driver.reset_deactivates) return activate(context);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

RATION_ENTRY cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = primary_of(device).context.alive ? 1 : 0;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuCtxCreate_v2(CUcontext* out, unsigned int, CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  auto* context = new Context;
  context->device = node_device(device);
  if (const CUresult state = activate(*context); state != CUDA_SUCCESS) {
    delete context;
    return state;
  }
  contexts().add(*context);
  context_stack.push_back(context);
  *out = reinterpret_cast<CUcontext>(context);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(out, flags, device);
}

RATION_ENTRY cuCtxDestroy_v2(CUcontext handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Context* context = contexts().find(handle);
  // The record of a destroyed context stays, since another thread may still name it.
  return context != nullptr && !context->primary && close(*context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
RATION_ENTRY cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }

namespace {

/// Prints, once per process, that the calling library cannot start here. The library's own error is only "not
/// supported".
void say_no_such_table(const void* caller) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  Dl_info info;
  const char* library = ::dladdr(caller, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "a library";
  std::fprintf(stderr,
               "ration-sim: %s asks the driver for private functions of NVIDIA's, which are not simulated: "
               "NVIDIA's own CUDA runtime cannot start here. A program that loads it as a file finds the simulated one "
               "after: eval \"$(ration sim env)\"   (or start it with ration run --sim; see ration help simulated)\n",
               library);
}

}  // namespace

// Returns a table of private functions by the table's number. NVIDIA's own libraries fetch such tables; a function in
// one of NVIDIA's tables makes a context (vosen/ZLUDA, dark_api). The simulated driver has two tables, under numbers of
// ration's own: one has a function that makes a context, and observer.hpp defines the other.
RATION_ENTRY cuGetExportTable(const void** out, const CUuuid* number) {
  static constexpr unsigned char kPrivateContexts[16] = {'r', 'a', 't', 'i', 'o', 'n', '-', 'c',
                                                         'o', 'n', 't', 'e', 'x', 't', 's', '1'};
  static constexpr struct {
    std::size_t size;
    CUresult (*create)(CUcontext*, unsigned int, CUdevice);
  } kTable{sizeof kTable, cuCtxCreate_v2};
  static constexpr ObserverTable kObservers{sizeof kObservers, [](Observer observer) { current_observer = observer; },
                                            &current_observer};
  const auto is = [&](const unsigned char(&table)[16]) { return std::memcmp(number->bytes, table, sizeof table) == 0; };
  if (out == nullptr || number == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is(kPrivateContexts) && !is(kObserverTable)) {
    say_no_such_table(__builtin_return_address(0));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *out = is(kObserverTable) ? static_cast<const void*>(&kObservers) : &kTable;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuCtxSetCurrent(CUcontext handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Context* context = contexts().find(handle);
  if (handle != nullptr && context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context_stack.empty()) context_stack.pop_back();
  if (context != nullptr) context_stack.push_back(context);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxGetCurrent(CUcontext* out) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  *out = reinterpret_cast<CUcontext>(current());
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxPushCurrent_v2(CUcontext handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Context* context = contexts().find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return context_stack.push_back(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
RATION_ENTRY cuCtxPopCurrent_v2(CUcontext* out) {
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = reinterpret_cast<CUcontext>(current());
  context_stack.pop_back();
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxGetDevice(CUdevice* out) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!current()->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *out = ordinal_of(current()->device);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxSynchronize() {
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (break_captures_of(current())) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  finish_context();
  arrive_managed();
  release_pools();
  return CUDA_SUCCESS;
}
