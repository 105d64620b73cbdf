#include "guard/hooks/pool_source.hpp"

#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/pool_origin.hpp"
#include "guard/hooks/table.hpp"
#include "guard/hooks/while_others_capture.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

Table<Elsewhere> elsewhere;  // the key is the handle

/// Returns the stream's device from its context, for a driver before R570, which has no cuStreamGetDevice (CUDA 12.8).
/// The context is made current for the query.
CUdevice device_by_context(CUstream stream) noexcept {
  CUdevice device = -1;
  CUcontext context = nullptr;
  if (real<cuStreamGetCtx_t>(Symbol::cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS ||
      real<cuCtxPushCurrent_v2_t>(Symbol::cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
    return -1;
  real<cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&device);
  real<cuCtxPopCurrent_v2_t>(Symbol::cuCtxPopCurrent_v2)(&context);
  return device;
}

CUdevice device_of(CUstream stream) noexcept {
  CUdevice device = -1;
  const bool special =
      reinterpret_cast<std::uintptr_t>(stream) <= 2;  // the null, legacy and per-thread streams use the current context
  if (special)
    real<cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&device);
  else if (!has_real(Symbol::cuStreamGetDevice) ||
           real<cuStreamGetDevice_t>(Symbol::cuStreamGetDevice)(stream, &device) != CUDA_SUCCESS)
    device = device_by_context(stream);
  return device;
}

/// Returns true unless an attribute of the pool restricts reuse across streams. If one does, memory that was freed on
/// one stream might not serve a request on another.
bool reuses_everywhere(CUmemoryPool handle) noexcept {
  for (const CUmemPool_attribute attribute :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    Bytes value;
    if (read_attribute(handle, attribute, value) && value == Bytes{0}) return false;
  }
  return true;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { elsewhere.abandon(); });

/// Returns true if the pool exists. The driver may still report attributes of a destroyed pool, but no device has
/// access to it.
bool is_usable(CUmemoryPool handle) noexcept {
  const WhileOthersCapture relaxed;
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return real<cuMemPoolGetAccess_t>(Symbol::cuMemPoolGetAccess)(&access, handle, &location) == CUDA_SUCCESS;
}

/// Returns the source of a pool that the table lacks. Enters the pool in the table if possible; otherwise the source
/// says why not.
[[gnu::noinline]] Source source_of_unknown(CUmemoryPool handle, CUstream stream) noexcept {
  PoolOrigin origin;
  Elsewhere known{};
  if (elsewhere.find(reinterpret_cast<std::uint64_t>(handle), known))
    origin.kind = known == Elsewhere::kAnywhere ? PoolOrigin::Kind::kAnywhere : PoolOrigin::Kind::kHost;
  else
    origin = origin_of(handle);
  const bool of_host = origin.kind == PoolOrigin::Kind::kHost;
  if (of_host && !counts_host()) return {Source::Kind::kNoDevice, nullptr};
  if (origin.kind == PoolOrigin::Kind::kAnywhere) origin.device = device_of(stream);
  Pool* pool = of_host || origin.device >= 0 ? add_pool(handle, of_host ? kHostDevice : origin.device) : nullptr;
  if (pool != nullptr) return {Source::Kind::kPool, pool};
  if (of_host || origin.device >= 0) return {Source::Kind::kFull, nullptr, origin.device};
  return {is_usable(handle) ? Source::Kind::kUndetermined : Source::Kind::kNone, nullptr};
}

}  // namespace

using namespace cuda;

void remember_elsewhere(CUmemoryPool pool, Elsewhere what) noexcept {
  elsewhere.insert(reinterpret_cast<std::uint64_t>(pool), what);
}

bool forget_elsewhere(CUmemoryPool pool, Elsewhere& what) noexcept {
  return elsewhere.take(reinterpret_cast<std::uint64_t>(pool), what);
}

bool read_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, Bytes& out) noexcept {
  const WhileOthersCapture relaxed;
  cuuint64_t value = 0;
  if (real<cuMemPoolGetAttribute_t>(Symbol::cuMemPoolGetAttribute)(pool, attribute, &value) != CUDA_SUCCESS)
    return false;
  out = Bytes{value};
  return true;
}

Pool* add_pool(CUmemoryPool handle, CUdevice device) noexcept {
  Pool* pool = pool_table::add(handle, device);
  if (pool != nullptr && !reuses_everywhere(handle)) {
    const Guard guard(pool->mutex);
    pool->map.distrust();
  }
  return pool;
}

Source source_of(CUmemoryPool handle, CUstream stream) noexcept {
  Pool* pool = pool_table::find(handle);
  if (pool != nullptr) [[likely]]
    return {Source::Kind::kPool, pool};
  return source_of_unknown(handle, stream);
}

Source source_of(CUstream stream) noexcept {
  const CUdevice device = device_of(stream);
  CUmemoryPool handle = nullptr;
  if (device < 0 || real<cuDeviceGetMemPool_t>(Symbol::cuDeviceGetMemPool)(&handle, device) != CUDA_SUCCESS) return {};
  return source_of(handle, stream);
}

}  // namespace ration::guard
