// Stream-ordered memory: pools that grow in steps of the driver's and give back, at the next synchronisation, what they
// hold beyond their release threshold.
#include <algorithm>
#include <list>

#include "capture.hpp"
#include "driver.hpp"
#include "graph_memory.hpp"
#include "host_memory.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

extern "C" ration::cuda::CUresult cuStreamGetDevice(ration::cuda::CUstream, ration::cuda::CUdevice*);

namespace ration::sim {
namespace {

using namespace cuda;

/// One piece of reserved memory, cut into parts in address order.
struct Part {
  std::uint64_t size = 0;
  bool used = false;
};
struct Region {
  Block block;
  std::map<std::uint64_t, Part> parts;
};
struct Pool {
  int device = 0;
  std::uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  bool destroyed = false;
  bool shareable = false;  // made for other processes to import
  bool imported = false;   // another process's: hands out nothing
  std::list<Region> regions;
};

Pool* defaults[kMaxDevices];
// Never emptied: a pool that was destroyed may be asked for once more, and the driver is called from atexit handlers.
std::vector<Pool*>& pools = *new std::vector<Pool*>;
struct Loan {
  Pool* pool;
  Region* region;
};
std::map<std::uint64_t, Loan>& loans = *new std::map<std::uint64_t, Loan>;

Pool* default_pool(int device) {
  if (defaults[device] == nullptr) {
    defaults[device] = new Pool;
    defaults[device]->device = device;
    pools.push_back(defaults[device]);
  }
  return defaults[device];
}

bool carve(Pool& pool, std::uint64_t size, std::uint64_t& out) {
  for (Region& region : pool.regions) {
    for (auto& [address, part] : region.parts) {
      if (part.used || part.size < size) continue;
      const std::uint64_t rest = part.size - size;
      part = {size, true};
      out = address;
      if (rest > 0) region.parts.emplace(address + size, Part{rest, false});
      loans.emplace(out, Loan{&pool, &region});
      pool.used += size;
      pool.used_high = std::max(pool.used_high, pool.used);
      return true;
    }
  }
  return false;
}

bool grow(Pool& pool, std::uint64_t size) {
  Region region;
  const std::uint64_t step = Node::get()->spec().driver.pool_growth.count();
  const std::uint64_t wanted = (size + step - 1) / step * step;
  if (!take_block(pool.device, wanted, region.block) && !take_block(pool.device, size, region.block)) return false;
  region.parts.emplace(region.block.address, Part{region.block.extent, false});
  pool.reserved += region.block.extent;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  pool.regions.push_back(std::move(region));
  return true;
}

void trim(Pool& pool, std::uint64_t keep) {
  for (auto region = pool.regions.begin(); region != pool.regions.end();) {
    const bool idle = region->parts.size() == 1 && !region->parts.begin()->second.used;
    if (!idle || pool.reserved - region->block.extent < keep) {
      ++region;
      continue;
    }
    pool.reserved -= region->block.extent;
    give_block(region->block);
    region = pool.regions.erase(region);
  }
}

/// "The allocation comes from the memory pool current to the stream's device" (driver API, cuMemAllocAsync).
int device_of(CUstream stream) {
  CUdevice ordinal = 0;
  return cuStreamGetDevice(stream, &ordinal) == CUDA_SUCCESS ? node_device(ordinal) : current()->device;
}

CUresult take(CUdeviceptr* out, std::uint64_t size, Pool* pool, CUstream stream, const char* function) {
  if (const CUresult state = ready(size, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > kUnlimited.count()) return CUDA_ERROR_OUT_OF_MEMORY;
  const int device = pool != nullptr ? pool->device : device_of(stream);
  if (is_captured(stream)) return capture_allocation(stream, device, size, *out);
  const std::lock_guard guard(driver().mutex);
  if (pool == nullptr) pool = default_pool(device);
  if (pool->imported) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t rounded = (size + 511) & ~std::uint64_t{511};
  std::uint64_t address = 0;
  if (!carve(*pool, rounded, address)) {
    if (!grow(*pool, rounded) || !carve(*pool, rounded, address)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult give(CUdeviceptr address, CUstream stream, const char* function) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (is_captured(stream)) return capture_free(stream, address);
  {
    const std::lock_guard guard(driver().mutex);
    if (free_from_pool(address) || free_graph_allocation(address) || close_imported(address, true)) return CUDA_SUCCESS;
  }
  finish(stream);  // plain memory goes back to the device itself, once the stream has come to it
  const std::lock_guard guard(driver().mutex);
  return free_plain(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// What an operation on a pool is; called before it, and without the driver's mutex.
void describe(Operation& operation, CUstream stream) {
  operation.memory = Memory::kDevice;
  operation.stream = stream;
  operation.is_async = true;
  operation.is_captured = is_captured(stream);
}

CUresult allocate(CUdeviceptr* out, std::uint64_t size, Pool* pool, CUstream stream,
                  const char* function = __builtin_FUNCTION()) {
  const auto tell = [&](Operation& operation) {
    describe(operation, stream);
    operation.out = out;
    operation.bytes = size;
    if (pool == nullptr && current() == nullptr) return;
    const std::lock_guard guard(driver().mutex);
    operation.pool = reinterpret_cast<CUmemoryPool>(pool != nullptr ? pool : default_pool(current()->device));
  };
  return observed(Work::kAllocate, function, tell, [&] { return take(out, size, pool, stream, function); });
}

CUresult release(CUdeviceptr address, CUstream stream, const char* function = __builtin_FUNCTION()) {
  const auto tell = [&](Operation& operation) {
    describe(operation, stream);
    operation.address = address;
    (void)memory_at(address, &operation.bytes, &operation.device);
    Allocation found;
    if (find_allocation(address, found)) operation.pool = found.pool;
  };
  return observed(Work::kFree, function, tell, [&] { return give(address, stream, function); });
}

Pool* pool_of(CUmemoryPool handle) { return reinterpret_cast<Pool*>(handle); }

}  // namespace

bool free_from_pool(std::uint64_t address) {
  const auto found = loans.find(address);
  if (found == loans.end()) return false;
  Pool& pool = *found->second.pool;
  auto& parts = found->second.region->parts;
  auto part = parts.find(address);
  pool.used -= part->second.size;
  part->second.used = false;
  if (const auto next = std::next(part); next != parts.end() && !next->second.used) {
    part->second.size += next->second.size;
    parts.erase(next);
  }
  if (part != parts.begin()) {
    if (const auto before = std::prev(part); !before->second.used) {
      before->second.size += part->second.size;
      parts.erase(part);
    }
  }
  loans.erase(found);
  if (pool.destroyed) trim(pool, 0);
  return true;
}

bool find_in_pool(std::uint64_t address, Allocation& out) {
  auto loan = loans.upper_bound(address);
  if (loan == loans.begin()) return false;
  --loan;
  const auto part = loan->second.region->parts.find(loan->first);
  if (address >= loan->first + part->second.size) return false;
  out = {loan->first,
         part->second.size,
         loan->second.pool->device,
         nullptr,
         false,
         false,
         reinterpret_cast<CUmemoryPool>(loan->second.pool)};
  return true;
}

Block* pool_block_of(std::uint64_t address) {
  const auto loan = loans.find(address);
  return loan == loans.end() || !loan->second.pool->shareable ? nullptr : &loan->second.region->block;
}

int shareable_pool_device(CUmemoryPool handle) { return pool_of(handle)->shareable ? pool_of(handle)->device : -1; }

CUmemoryPool import_pool(int device) {
  const std::lock_guard guard(driver().mutex);
  auto* pool = new Pool;
  pool->device = device;
  pool->imported = true;
  pools.push_back(pool);
  return reinterpret_cast<CUmemoryPool>(pool);
}

void release_pools() {
  const std::lock_guard guard(driver().mutex);
  for (Pool* pool : pools) {
    if (pool->reserved > pool->threshold) trim(*pool, pool->threshold);
  }
}

}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuMemAllocAsync(CUdeviceptr* out, std::size_t size, CUstream stream) {
  return allocate(out, size, nullptr, stream);
}
RATION_ENTRY cuMemAllocAsync_ptsz(CUdeviceptr* out, std::size_t size, CUstream stream) {
  return allocate(out, size, nullptr, per_thread(stream));
}
RATION_ENTRY cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t size, CUmemoryPool pool, CUstream stream) {
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : allocate(out, size, pool_of(pool), stream);
}
RATION_ENTRY cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, std::size_t size, CUmemoryPool pool, CUstream stream) {
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : allocate(out, size, pool_of(pool), per_thread(stream));
}
RATION_ENTRY cuMemFreeAsync(CUdeviceptr address, CUstream stream) { return release(address, stream); }
RATION_ENTRY cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) { return release(address, per_thread(stream)); }

RATION_ENTRY cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(driver().mutex);
  *out = reinterpret_cast<CUmemoryPool>(default_pool(node_device(device)));
  return CUDA_SUCCESS;
}
RATION_ENTRY cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) { return cuDeviceGetDefaultMemPool(out, device); }

RATION_ENTRY cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || properties == nullptr || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      node_device(properties->location.id) < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard guard(driver().mutex);
  auto* pool = new Pool;
  pool->device = node_device(properties->location.id);
  pool->shareable = properties->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  pools.push_back(pool);
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolDestroy(CUmemoryPool handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  pool_of(handle)->destroyed = true;
  trim(*pool_of(handle), 0);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolTrimTo(CUmemoryPool handle, std::size_t keep) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  trim(*pool_of(handle), keep);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (handle == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) pool_of(handle)->threshold = *static_cast<cuuint64_t*>(value);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (handle == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Pool& pool = *pool_of(handle);
  auto& out = *static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      out = pool.threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      out = pool.reserved;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      out = pool.reserved_high;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      out = pool.used;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      out = pool.used_high;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
