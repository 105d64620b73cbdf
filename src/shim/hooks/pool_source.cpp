#include "shim/hooks/pool_source.hpp"

#include "shim/hooks/after_fork.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/pool_origin.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

Table<Elsewhere> elsewhere;  // by handle

/// Of a driver before R570, which has no cuStreamGetDevice (CUDA 12.8). The stream's context is made current for the
/// question.
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
      reinterpret_cast<std::uintptr_t>(stream) <= 2;  // null, legacy, per-thread: the current context's
  if (special)
    real<cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&device);
  else if (!has_real(Symbol::cuStreamGetDevice) ||
           real<cuStreamGetDevice_t>(Symbol::cuStreamGetDevice)(stream, &device) != CUDA_SUCCESS)
    device = device_by_context(stream);
  return device;
}

/// With reuse across streams restricted, free memory may not do for a request on another stream.
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

}  // namespace

using namespace cuda;

void remember_elsewhere(CUmemoryPool pool, Elsewhere what) noexcept {
  elsewhere.insert(reinterpret_cast<std::uint64_t>(pool), what);
}

bool forget_elsewhere(CUmemoryPool pool, Elsewhere& what) noexcept {
  return elsewhere.take(reinterpret_cast<std::uint64_t>(pool), what);
}

bool read_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, Bytes& out) noexcept {
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
  PoolOrigin origin;
  Elsewhere known{};
  if (elsewhere.find(reinterpret_cast<std::uint64_t>(handle), known))
    origin.kind = known == Elsewhere::kAnywhere ? PoolOrigin::Kind::kAnywhere : PoolOrigin::Kind::kHost;
  else
    origin = origin_of(handle);
  if (origin.kind == PoolOrigin::Kind::kHost) return {Source::Kind::kNoDevice, nullptr};
  if (origin.kind == PoolOrigin::Kind::kAnywhere) origin.device = device_of(stream);
  if (origin.device >= 0) pool = add_pool(handle, origin.device);
  if (pool != nullptr) return {Source::Kind::kPool, pool};
  if (origin.device >= 0) return {Source::Kind::kFull, nullptr, origin.device};
  Bytes reserved;
  const bool exists = read_attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved);
  return {exists ? Source::Kind::kUntold : Source::Kind::kNone, nullptr};
}

Source source_of(CUstream stream) noexcept {
  const CUdevice device = device_of(stream);
  CUmemoryPool handle = nullptr;
  if (device < 0 || real<cuDeviceGetMemPool_t>(Symbol::cuDeviceGetMemPool)(&handle, device) != CUDA_SUCCESS) return {};
  return source_of(handle, stream);
}

}  // namespace ration::shim
