// The settings of a context: limits, cache preference, flags and peers. Only limits have an effect.
#include <algorithm>
#include <map>

#include "driver.hpp"
#include "driver/cuda_copy_abi.hpp"

extern "C" ration::cuda::CUresult cuDeviceGetAttribute(int*, ration::cuda::CUdevice_attribute, ration::cuda::CUdevice);

namespace ration::sim {
namespace {

using namespace cuda;

struct Limit {
  std::size_t value = 0;
  std::uint64_t taken = 0;  // the device memory that it takes beyond what every context has
};

auto& limits() {
  static auto* map = new std::map<std::pair<Context*, int>, Limit>;  // never destroyed: atexit handlers call the driver
  return *map;
}

CUresult in_context(std::uint64_t bytes = 0, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(bytes, function); state != CUDA_SUCCESS) return state;
  return current() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

std::size_t default_limit(int limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return 1024;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return 1 << 20;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return 8 << 20;
    default:
      return 0;
  }
}

std::size_t limit_of(Context* context, int limit) {
  const std::lock_guard guard(driver().mutex);
  const auto found = limits().find({context, limit});
  return found != limits().end() ? found->second.value : default_limit(limit);
}

/// Returns how many times the memory of a limit is taken: the stack once for each thread that can be resident at the
/// same time, other memory once.
std::uint64_t copies_of(int limit, int device) {
  if (limit != CU_LIMIT_STACK_SIZE) return 1;
  const CUdevice ordinal = ordinal_of(device);
  int processors = 0, threads = 0;
  (void)cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
  (void)cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, ordinal);
  return static_cast<std::uint64_t>(processors) * static_cast<std::uint64_t>(threads);
}

/// Sets the limit of the stack, or of the memory that malloc() or printf() in kernels uses. A real driver takes the
/// memory for malloc() and printf() at the next launch that needs it; the simulated driver takes it at once. A context
/// keeps the memory until the context ends, even if the limit is lowered.
CUresult set_memory_limit(Context* context, int kind, std::size_t value) {
  const std::uint64_t copies = copies_of(kind, context->device);
  Driver& state = driver();
  const std::lock_guard guard(state.mutex);
  if (!context->alive) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint64_t usual = default_limit(kind);
  const std::uint64_t most = kUnlimited.count() / copies;
  const std::uint64_t beyond = std::min<std::uint64_t>(value, most) - std::min<std::uint64_t>(value, usual);
  const std::uint64_t needed = round_up(Bytes{beyond * copies}, kGranule).count();
  Limit& limit = limits().try_emplace({context, kind}, Limit{usual}).first->second;
  if (needed > limit.taken) {
    Block block;
    if (!take_block(context->device, needed - limit.taken, block)) return CUDA_ERROR_OUT_OF_MEMORY;
    block.context = context;
    state.blocks.emplace(block.address, std::move(block));
    limit.taken = needed;
  }
  limit.value = value;
  return CUDA_SUCCESS;
}

}  // namespace

cuda::CUresult grow_stack(Context* context, std::size_t needed) {
  const std::size_t asked_for = limit_of(context, cuda::CU_LIMIT_STACK_SIZE);
  if (needed <= asked_for) return cuda::CUDA_SUCCESS;
  const cuda::CUresult grown = set_memory_limit(context, cuda::CU_LIMIT_STACK_SIZE, needed);
  const std::lock_guard guard(driver().mutex);
  if (const auto limit = limits().find({context, cuda::CU_LIMIT_STACK_SIZE}); limit != limits().end())
    limit->second.value = asked_for;
  return grown;
}

void forget_limits(Context* context) {
  const std::lock_guard guard(driver().mutex);
  std::erase_if(limits(), [&](const auto& entry) { return entry.first.first == context; });
}

}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

extern "C" CUresult cuCtxCreate_v2(CUcontext*, unsigned int, CUdevice);
RATION_ENTRY cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(out, flags, device);
}
RATION_ENTRY cuGLCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(out, flags, device);
}
RATION_ENTRY cuGLCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(out, flags, device);
}
RATION_ENTRY cuCtxCreate_v4(CUcontext* out, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  return cuCtxCreate_v2(out, flags, device);
}

RATION_ENTRY cuCtxSetLimit(CUlimit limit, std::size_t value) {
  const bool takes_memory =
      limit == CU_LIMIT_STACK_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE;
  if (const CUresult state = in_context(takes_memory ? value : 0); state != CUDA_SUCCESS) return state;
  if (limit < 0 || limit > 8) return static_cast<CUresult>(215);  // CUDA_ERROR_UNSUPPORTED_LIMIT
  if (takes_memory) return set_memory_limit(current(), limit, value);
  const std::lock_guard guard(driver().mutex);
  limits()[{current(), limit}].value = value;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxGetLimit(std::size_t* out, CUlimit limit) {
  if (const CUresult state = in_context(); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (limit < 0 || limit > 8) return static_cast<CUresult>(215);
  *out = limit_of(current(), limit);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (const CUresult state = in_context(); state != CUDA_SUCCESS) return state;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxGetApiVersion(CUcontext, unsigned int* out) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 3020;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxGetId(CUcontext handle, unsigned long long* out) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const void* context = handle != nullptr ? static_cast<const void*>(handle) : current();
  if (out == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<std::uintptr_t>(context);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxGetFlags(unsigned int* out) {
  if (const CUresult state = in_context(); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxSetFlags(unsigned int) { return in_context(); }
RATION_ENTRY cuCtxGetCacheConfig(int* out) {
  if (const CUresult state = in_context(); state != CUDA_SUCCESS) return state;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuCtxSetCacheConfig(int) { return in_context(); }
RATION_ENTRY cuCtxResetPersistingL2Cache() { return in_context(); }
RATION_ENTRY cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  if (const CUresult state = in_context(); state != CUDA_SUCCESS) return state;
  return peer == nullptr || flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
RATION_ENTRY cuCtxDisablePeerAccess(CUcontext peer) {
  if (const CUresult state = in_context(); state != CUDA_SUCCESS) return state;
  return peer == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
RATION_ENTRY cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  return node_device(device) < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
RATION_ENTRY cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
RATION_ENTRY cuCtxPushCurrent(CUcontext) { return CUDA_ERROR_NOT_SUPPORTED; }  // only for 32-bit contexts
