// Stream-ordered memory. A pool grows in the driver's steps and gives back, at the next synchronisation, what it holds
// beyond its release threshold.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <unordered_set>

#include "capture.hpp"
#include "driver.hpp"
#include "graph_memory.hpp"
#include "host_memory.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

extern "C" ration::cuda::CUresult cuStreamGetCtx(ration::cuda::CUstream, ration::cuda::CUcontext*);

namespace ration::sim {
namespace {

using namespace cuda;

/// Finds the place of a pool, as check_location() does for memory. NVIDIA's header rejects HOST_NUMA_CURRENT for pools.
CUresult pool_location(CUmemLocation location, int& device) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ? CUDA_ERROR_INVALID_VALUE
                                                                 : check_location(location, device);
}

/// A part of a region of reserved memory; the parts of a region lie in address order.
struct Part {
  std::uint64_t size = 0;
  bool used = false;
};
struct Region {
  Block block;
  std::map<std::uint64_t, Part> parts;
};
struct Pool {
  int device = 0;  // a device of the node; -1: the host
  CUmemLocation location{};
  std::uint64_t most = 0;  // the most that it reserves; 0: no maximum
  std::uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  int reuse[3] = {1, 1, 1};  // values that a program sets; they have no effect, since a freed block is free at once
  bool destroyed = false;
  bool shareable = false;  // made for other processes to import
  bool imported = false;   // another process's pool, which hands out nothing here
  std::list<Region> regions;
};

// Pools are never removed: programs may still query a destroyed pool, and atexit handlers call the driver.
std::unordered_set<Pool*>& pools = *new std::unordered_set<Pool*>;

/// The pools of one place: the default one and the current one.
struct Place {
  Pool* usual = nullptr;
  Pool* current = nullptr;
};
/// The places by number: a device of the node; -1 for the host without a NUMA node; -2 and below for the host's NUMA
/// nodes.
std::map<int, Place>& places = *new std::map<int, Place>;

struct Loan {
  Pool* pool;
  Region* region;
};
std::map<std::uint64_t, Loan>& loans = *new std::map<std::uint64_t, Loan>;

int key_of(CUmemLocation location, int device) {
  return device >= 0 ? device : location.type == CU_MEM_LOCATION_TYPE_HOST ? -1 : -2 - location.id;
}

Pool* add(int device, CUmemLocation location) {
  auto* pool = new Pool;
  pool->device = device;
  pool->location = location;
  pools.insert(pool);
  return pool;
}

Place& place_of(CUmemLocation location, int device) {
  Place& place = places[key_of(location, device)];
  if (place.usual == nullptr) place.usual = place.current = add(device, location);
  return place;
}
Place& place_of(int device) { return place_of({CU_MEM_LOCATION_TYPE_DEVICE, ordinal_of(device)}, device); }

/// Finds a pool by its handle. Returns null if there never was such a pool, or if it was destroyed.
Pool* pool_of(CUmemoryPool handle) {
  auto* pool = reinterpret_cast<Pool*>(handle);
  return pools.contains(pool) && !pool->destroyed ? pool : nullptr;
}

CUmemoryPool handle_of(Pool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }

/// Takes memory of the device, or of the host if `device` is negative.
bool take_region(int device, std::uint64_t size, Block& out) {
  if (device >= 0) return take_block(device, size, out);
  const std::uint64_t extent = round_up(Bytes{size}, kGranule).count();
  void* memory = ::mmap(nullptr, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || !Node::get()->pin(Bytes{extent})) return false;
  out.device = device;
  out.size = size;
  out.extent = extent;
  out.address = reinterpret_cast<std::uint64_t>(memory);
  return true;
}

void give_region(Block& block) {
  if (block.device >= 0) return give_block(block);
  ::munmap(reinterpret_cast<void*>(block.address), block.extent);
  Node::get()->unpin(Bytes{block.extent});
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

void trim(Pool& pool, std::uint64_t keep) {
  for (auto region = pool.regions.begin(); region != pool.regions.end();) {
    const bool idle = region->parts.size() == 1 && !region->parts.begin()->second.used;
    if (!idle || pool.reserved - region->block.extent < keep) {
      ++region;
      continue;
    }
    pool.reserved -= region->block.extent;
    give_region(region->block);
    region = pool.regions.erase(region);
  }
}

/// Grows a pool. A pool with a maximum grows by the requested size only, so that all of the maximum can be used.
bool grow(Pool& pool, std::uint64_t size) {
  Region region;
  if (pool.most != 0) {
    const std::uint64_t extent = round_up(Bytes{size}, kGranule).count();
    if (pool.reserved + extent > pool.most) trim(pool, 0);
    if (pool.reserved + extent > pool.most || !take_region(pool.device, size, region.block)) return false;
  } else {
    const std::uint64_t step = Node::get()->spec().driver.pool_growth.count();
    const std::uint64_t wanted = (size + step - 1) / step * step;
    if (!take_region(pool.device, wanted, region.block) && !take_region(pool.device, size, region.block)) return false;
  }
  region.parts.emplace(region.block.address, Part{region.block.extent, false});
  pool.reserved += region.block.extent;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  pool.regions.push_back(std::move(region));
  return true;
}

/// Returns the device of the stream: "The allocation comes from the memory pool current to the stream's device" (driver
/// API, cuMemAllocAsync).
int device_of(CUstream stream) {
  CUcontext context = nullptr;
  if (cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) return current()->device;
  return reinterpret_cast<const Context*>(context)->device;
}

/// Takes memory from a pool or, if `handle` is null, from the current pool of the stream's device.
CUresult take(CUdeviceptr* out, std::uint64_t size, const CUmemoryPool* handle, CUstream stream, const char* function) {
  if (const CUresult state = ready(size, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > kUnlimited.count()) return CUDA_ERROR_OUT_OF_MEMORY;
  int device = handle == nullptr ? device_of(stream) : 0;
  if (handle != nullptr) {
    const std::lock_guard guard(driver().mutex);
    const Pool* pool = pool_of(*handle);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    device = pool->device;
  }
  if (is_captured(stream))
    return device < 0 ? CUDA_ERROR_NOT_SUPPORTED : capture_allocation(stream, device, size, *out);
  const std::lock_guard guard(driver().mutex);
  Pool* pool = handle != nullptr ? pool_of(*handle) : place_of(device).current;
  if (pool == nullptr || pool->imported) return CUDA_ERROR_INVALID_VALUE;
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
  finish(stream);  // waits: plain memory goes back to the device, not to a pool, once the stream is done
  const std::lock_guard guard(driver().mutex);
  return free_plain(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Describes an operation on a pool before it is done. Called without the driver's mutex.
void describe(Operation& operation, CUstream stream) {
  operation.memory = Memory::kDevice;
  operation.stream = stream;
  operation.is_async = true;
  operation.is_captured = is_captured(stream);
}

CUresult allocate(CUdeviceptr* out, std::uint64_t size, const CUmemoryPool* pool, CUstream stream,
                  const char* function = __builtin_FUNCTION()) {
  const auto tell = [&](Operation& operation) {
    describe(operation, stream);
    operation.out = out;
    operation.bytes = size;
    if (pool == nullptr && current() == nullptr) return;
    const std::lock_guard guard(driver().mutex);
    operation.pool = pool != nullptr ? *pool : handle_of(place_of(current()->device).current);
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

std::uint64_t as_number(const void* value, std::size_t size) {
  std::uint64_t number = 0;
  std::memcpy(&number, value, size);
  return number;
}

/// Writes an attribute of a pool, and sets `size` to the width in bytes that the attribute has in the driver. Returns
/// false if the attribute is unknown.
bool attribute_of(const Pool& pool, int attribute, std::uint64_t& value, std::size_t& size) {
  size = sizeof(int);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return value = static_cast<std::uint64_t>(pool.reuse[attribute - 1]), true;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return value = pool.threshold, size = 8, true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return value = pool.reserved, size = 8, true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return value = pool.reserved_high, size = 8, true;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return value = pool.used, size = 8, true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return value = pool.used_high, size = 8, true;
    default:
      break;
  }
  // Since CUDA 13.2, a pool reports the properties that it was made with.
  constexpr int kSince = 13020, kType = 9, kHandleTypes = 10, kLocationId = 11, kLocationType = 12, kMost = 13;
  if (Node::get()->spec().driver.cuda_version < kSince) return false;
  switch (attribute) {
    case kType:
      return value = CU_MEM_ALLOCATION_TYPE_PINNED, true;
    case kHandleTypes:
      return value = pool.shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0, true;
    case kLocationId:
      return value = static_cast<std::uint64_t>(pool.location.id), true;
    case kLocationType:
      return value = static_cast<std::uint64_t>(pool.location.type), true;
    case kMost:
      return value = pool.most, size = 8, true;
    default:
      return false;
  }
}

CUresult set_attribute(Pool& pool, int attribute, const void* value) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool.reuse[attribute - 1] = as_number(value, sizeof(int)) != 0 ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool.threshold = as_number(value, 8);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (as_number(value, 8) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.reserved_high = pool.reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (as_number(value, 8) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.used_high = pool.used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

enum class Which { kUsual, kCurrent };

/// Finds the place for a location and a type of memory. The caller looks up the default or current pool of that place.
CUresult find_place(const CUmemLocation* location, CUmemAllocationType type, int& device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) return CUDA_ERROR_NOT_SUPPORTED;
  return type == CU_MEM_ALLOCATION_TYPE_PINNED ? pool_location(*location, device) : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_pool(CUmemoryPool* out, const CUmemLocation* location, CUmemAllocationType type, Which which) {
  int device = 0;
  if (const CUresult found = find_place(location, type, device); found != CUDA_SUCCESS) return found;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  const Place& place = place_of(*location, device);
  *out = handle_of(which == Which::kUsual ? place.usual : place.current);
  return CUDA_SUCCESS;
}

CUresult set_pool(const CUmemLocation* location, CUmemAllocationType type, CUmemoryPool handle) {
  int device = 0;
  if (const CUresult found = find_place(location, type, device); found != CUDA_SUCCESS) return found;
  const std::lock_guard guard(driver().mutex);
  Pool* pool = pool_of(handle);
  if (pool == nullptr || pool->imported || key_of(pool->location, pool->device) != key_of(*location, device))
    return CUDA_ERROR_INVALID_VALUE;
  place_of(*location, device).current = pool;
  return CUDA_SUCCESS;
}

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

namespace {

/// Returns the loan whose block contains the address, or null.
const Loan* loan_at(std::uint64_t address, std::uint64_t& start, std::uint64_t& size) {
  auto loan = loans.upper_bound(address);
  if (loan == loans.begin()) return nullptr;
  --loan;
  start = loan->first;
  size = loan->second.region->parts.find(start)->second.size;
  return address - start < size ? &loan->second : nullptr;
}

}  // namespace

bool find_in_pool(std::uint64_t address, Allocation& out) {
  std::uint64_t start = 0, size = 0;
  const Loan* loan = loan_at(address, start, size);
  if (loan == nullptr || loan->pool->device < 0) return false;
  out = {start, size, loan->pool->device, nullptr, false, false, handle_of(loan->pool)};
  return true;
}

bool find_in_host_pool(std::uint64_t address, HostBlock& out) {
  std::uint64_t start = 0, size = 0;
  const Loan* loan = loan_at(address, start, size);
  if (loan == nullptr || loan->pool->device >= 0) return false;
  out = {start, size};
  out.pool = handle_of(loan->pool);
  return true;
}

Block* pool_block_of(std::uint64_t address) {
  const auto loan = loans.find(address);
  return loan == loans.end() || !loan->second.pool->shareable ? nullptr : &loan->second.region->block;
}

int shareable_pool_device(CUmemoryPool handle) {
  const std::lock_guard guard(driver().mutex);
  const Pool* pool = pool_of(handle);
  return pool != nullptr && pool->shareable ? pool->device : -1;
}

CUmemoryPool import_pool(int device) {
  const std::lock_guard guard(driver().mutex);
  Pool* pool = add(device, {CU_MEM_LOCATION_TYPE_DEVICE, ordinal_of(device)});
  pool->imported = true;
  return handle_of(pool);
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
  return allocate(out, size, &pool, stream);
}
RATION_ENTRY cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, std::size_t size, CUmemoryPool pool, CUstream stream) {
  return allocate(out, size, &pool, per_thread(stream));
}
RATION_ENTRY cuMemFreeAsync(CUdeviceptr address, CUstream stream) { return release(address, stream); }
RATION_ENTRY cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) { return release(address, per_thread(stream)); }

RATION_ENTRY cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return get_pool(out, location, type, Which::kUsual);
}
RATION_ENTRY cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return get_pool(out, location, type, Which::kCurrent);
}
RATION_ENTRY cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return set_pool(location, type, pool);
}
RATION_ENTRY cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
  return get_pool(out, &location, CU_MEM_ALLOCATION_TYPE_PINNED, Which::kUsual);
}
RATION_ENTRY cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
  return get_pool(out, &location, CU_MEM_ALLOCATION_TYPE_PINNED, Which::kCurrent);
}
RATION_ENTRY cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
  return set_pool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
}

RATION_ENTRY cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) return CUDA_ERROR_NOT_SUPPORTED;
  int device = 0;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool_location(properties->location, device) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  // "Pools created with the type CU_MEM_LOCATION_TYPE_HOST are not IPC capable" (driver API); here, that holds for all
  // pools of the host.
  if (device < 0 && properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return properties->location.type == CU_MEM_LOCATION_TYPE_HOST ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard guard(driver().mutex);
  Pool* pool = add(device, properties->location);
  pool->most = ration::round_up(ration::Bytes{properties->maxSize}, ration::kGranule).count();
  pool->shareable = properties->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *out = handle_of(pool);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolDestroy(CUmemoryPool handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  Pool* pool = pool_of(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [key, place] : places) {
    if (place.usual == pool) return CUDA_ERROR_INVALID_VALUE;
    if (place.current == pool) place.current = place.usual;
  }
  pool->destroyed = true;
  trim(*pool, 0);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolTrimTo(CUmemoryPool handle, std::size_t keep) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (break_captures_by_unsafe_call()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard guard(driver().mutex);
  Pool* pool = pool_of(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  trim(*pool, keep);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  Pool* pool = pool_of(handle);
  return pool == nullptr || value == nullptr ? CUDA_ERROR_INVALID_VALUE : set_attribute(*pool, attribute, value);
}
// Writes an attribute even of a destroyed pool, because programs may still hold memory from it. Queries about pools
// count as unsafe calls during a capture (measured on R580: tests/gpu, experiment 32).
RATION_ENTRY cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* out) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (break_captures_by_unsafe_call()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard guard(driver().mutex);
  auto* pool = reinterpret_cast<Pool*>(handle);
  std::uint64_t value = 0;
  std::size_t size = 0;
  if (out == nullptr || !pools.contains(pool) || !attribute_of(*pool, attribute, value, size))
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, &value, size);
  return CUDA_SUCCESS;
}
// Checks the locations only: every device can reach all memory here, as if all were peers.
RATION_ENTRY cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* access, std::size_t count) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  if (pool_of(handle) == nullptr || access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    int device = 0;
    if (const CUresult result = pool_location(access[i].location, device); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemPoolGetAccess(CUmemAccess_flags* out, CUmemoryPool handle, CUmemLocation* location) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (break_captures_by_unsafe_call()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard guard(driver().mutex);
  int device = 0;
  if (out == nullptr || location == nullptr || pool_of(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = pool_location(*location, device); result != CUDA_SUCCESS) return result;
  *out = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}
