#include "guard/hooks/pool_origin.hpp"

#include "driver/cuda_share_abi.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/while_others_capture.hpp"

namespace ration::guard {
namespace {

using namespace cuda;
using Is = PoolOrigin::Kind;

PoolOrigin at(CUmemLocation location) noexcept {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return {Is::kDevice, location.id};
  if (is_of_host(location.type)) return {Is::kHost, -1};
  return {};
}

bool read_number(CUmemoryPool pool, CUmemPool_attribute attribute, int& out) noexcept {
  cuuint64_t value = 0;  // wider than any attribute that the driver writes
  if (real<cuMemPoolGetAttribute_t>(Symbol::cuMemPoolGetAttribute)(pool, attribute, &value) != CUDA_SUCCESS)
    return false;
  out = static_cast<int>(value);
  return true;
}

/// Reads the location that a pool reports since CUDA 13.2.
PoolOrigin by_attributes(CUmemoryPool pool) noexcept {
  int type = 0, id = 0;
  if (!read_number(pool, CU_MEMPOOL_ATTR_LOCATION_TYPE, type) || !read_number(pool, CU_MEMPOOL_ATTR_LOCATION_ID, id))
    return {};
  if (type == CU_MEM_LOCATION_TYPE_INVALID) return {Is::kAnywhere, -1};
  return at({static_cast<CUmemLocationType>(type), id});
}

PoolOrigin among_devices(CUmemoryPool pool, int devices) noexcept {
  // The default pools of all devices are compared first, then the pools that a program has set in their place.
  for (auto* ask : {real<cuDeviceGetMemPool_t>(Symbol::cuDeviceGetDefaultMemPool),
                    real<cuDeviceGetMemPool_t>(Symbol::cuDeviceGetMemPool)}) {
    for (CUdevice device = 0; device < devices; ++device) {
      CUmemoryPool found = nullptr;
      if (ask(&found, device) == CUDA_SUCCESS && found == pool) return {Is::kDevice, device};
    }
  }
  return {};
}

/// Searches for the pool among those of the host, which exist since CUDA 13.0.
PoolOrigin among_the_hosts(CUmemoryPool pool) noexcept {
  constexpr int kMostNodes = 64;
  const auto is_there = [&](CUmemLocationType type, int id) {
    for (const Symbol symbol : {Symbol::cuMemGetDefaultMemPool, Symbol::cuMemGetMemPool}) {
      CUmemLocation location{type, id};
      CUmemoryPool found = nullptr;
      if (real<cuMemGetMemPool_t>(symbol)(&found, &location, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS &&
          found == pool)
        return true;
    }
    return false;
  };
  bool found = is_there(CU_MEM_LOCATION_TYPE_HOST, 0) || is_there(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
  for (int node = 0; !found && node < kMostNodes; ++node) found = is_there(CU_MEM_LOCATION_TYPE_HOST_NUMA, node);
  return found ? PoolOrigin{Is::kHost, -1} : PoolOrigin{};
}

/// Returns the only device that may use the pool's memory, or unknown if several may. A device may always use its own
/// pools; any other device must be given access first.
PoolOrigin by_access(CUmemoryPool pool, int devices) noexcept {
  PoolOrigin result;
  for (CUdevice device = 0; device < devices; ++device) {
    CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (real<cuMemPoolGetAccess_t>(Symbol::cuMemPoolGetAccess)(&access, pool, &location) != CUDA_SUCCESS ||
        access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      continue;
    if (result.kind == Is::kDevice) return {};
    result = {Is::kDevice, device};
  }
  return result;
}

}  // namespace

PoolOrigin origin_of(const CUmemPoolProps& properties) noexcept {
  const PoolOrigin place = at(properties.location);
  const bool is_managed = properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  return place.kind == Is::kUnknown && is_managed ? PoolOrigin{Is::kAnywhere, -1} : place;
}

PoolOrigin origin_of(CUmemoryPool pool) noexcept {
  const WhileOthersCapture relaxed;
  PoolOrigin result = by_attributes(pool);
  if (result.kind != Is::kUnknown) return result;
  int devices = 0;
  (void)real<cuDeviceGetCount_t>(Symbol::cuDeviceGetCount)(&devices);
  result = among_devices(pool, devices);
  if (result.kind == Is::kUnknown) result = among_the_hosts(pool);
  return result.kind == Is::kUnknown ? by_access(pool, devices) : result;
}

}  // namespace ration::guard
