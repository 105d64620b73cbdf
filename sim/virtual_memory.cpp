// Virtual memory management: address ranges, physical memory, and mappings of one into the other, or into arrays
// without memory of their own. Physical memory lives while a handle or a mapping does.
#include <sys/mman.h>

#include "arrays.hpp"
#include "driver.hpp"
#include "driver/cuda_array_abi.hpp"
#include "host_memory.hpp"
#include "shared_blocks.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

struct Physical {
  Block block;
  int handles = 1;
  int mappings = 0;
  bool shareable = false;
};
struct Mapping {
  std::uint64_t size = 0;
  Physical* physical = nullptr;
};
std::map<std::uint64_t, Mapping> mappings;
struct ArrayMapping {
  ArrayRegion region;
  Physical* physical = nullptr;
};
std::vector<ArrayMapping> array_mappings;

Physical* physical_of(CUmemGenericAllocationHandle handle) { return reinterpret_cast<Physical*>(handle); }

void drop(Physical* physical) {
  if (physical->handles > 0 || physical->mappings > 0) return;
  give_block(physical->block);
  delete physical;
}

/// Whether the driver takes the entry: a part that lies in the array, of whole tiles, and memory enough for it.
bool is_valid(const CUarrayMapInfo& entry) {
  const bool tail = entry.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  const auto& box = entry.subresource.sparseLevel;
  MappableArray array;
  if (!find_mappable(entry.resource.array, tail ? 0 : box.level, array) || entry.flags != 0) return false;
  const ArrayRegion region = region_of(entry);
  std::uint64_t bytes = region.end[0] - region.begin[0];
  if (tail) {
    if (entry.subresource.miptail.layer >= array.layers || bytes == 0 || region.end[0] > array.bytes) return false;
  } else {
    if (box.layer >= array.layers || box.extentWidth == 0 || box.extentHeight == 0 || box.extentDepth == 0)
      return false;
    bytes = 64 << 10;
    for (int axis = 0; axis < 3; ++axis) {
      const std::uint64_t begin = region.begin[axis], end = region.end[axis], tile = array.tile[axis];
      if (begin % tile != 0 || end > array.extent[axis] || (end % tile != 0 && end != array.extent[axis])) return false;
      bytes *= (end - begin + tile - 1) / tile;
    }
  }
  if (entry.memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) return entry.memHandle.memHandle == 0;
  if (entry.memOperationType != CU_MEM_OPERATION_TYPE_MAP || entry.memHandle.memHandle == 0) return false;
  const Block& block = physical_of(entry.memHandle.memHandle)->block;
  return entry.memHandleType == CU_MEM_HANDLE_TYPE_GENERIC && entry.offset + bytes <= block.extent &&
         entry.deviceBitMask == 1U << ordinal_of(block.device);
}

/// Takes out what is mapped in `region`; the rest of a mapping that it cuts stays.
void clear_region(const ArrayRegion& region) {
  std::vector<ArrayMapping> left;
  for (const ArrayMapping& one : array_mappings) {
    if (!overlap(one.region, region)) {
      left.push_back(one);
      continue;
    }
    subtract(one.region, region, [&](const ArrayRegion& part) {
      ++one.physical->mappings;
      left.push_back({part, one.physical});
    });
    --one.physical->mappings;
    drop(one.physical);
  }
  array_mappings = std::move(left);
}

CUresult map_arrays(const CUarrayMapInfo* entries, unsigned int count) {
  if (const CUresult state = ready(0, "cuMemMapArrayAsync"); state != CUDA_SUCCESS) return state;
  if (entries == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  if (!std::all_of(entries, entries + count, is_valid)) return CUDA_ERROR_INVALID_VALUE;
  for (const CUarrayMapInfo* entry = entries; entry != entries + count; ++entry) {
    const ArrayRegion region = region_of(*entry);
    const bool maps = entry->memOperationType == CU_MEM_OPERATION_TYPE_MAP;
    Physical* physical = maps ? physical_of(entry->memHandle.memHandle) : nullptr;
    if (maps) ++physical->mappings;
    clear_region(region);
    if (maps) array_mappings.push_back({region, physical});
  }
  return CUDA_SUCCESS;
}

}  // namespace

void unmap_array(std::uint64_t array) {
  std::erase_if(array_mappings, [&](const ArrayMapping& one) {
    if (one.region.array != array) return false;
    --one.physical->mappings;
    drop(one.physical);
    return true;
  });
}

bool find_mapped(std::uint64_t address, Allocation& out) {
  auto mapping = mappings.upper_bound(address);
  if (mapping == mappings.begin() || address >= (--mapping)->first + mapping->second.size) return false;
  out = {mapping->first, mapping->second.size, mapping->second.physical->block.device, nullptr, false, false, nullptr};
  return true;
}

}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuMemGetAllocationGranularity(std::size_t* out, const CUmemAllocationProp*,
                                           CUmemAllocationGranularity_flags) {
  *out = ration::kGranule.count();
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t size, const CUmemAllocationProp* properties,
                         unsigned long long) {
  if (const CUresult state = ready(size); state != CUDA_SUCCESS) return state;
  if (size == 0 || size % ration::kGranule.count() != 0 || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int device = node_device(properties->location.id);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(driver().mutex);
  auto* physical = new Physical;
  if (!take_block(device, size, physical->block)) {
    delete physical;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  physical->shareable = (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (handle == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  --physical_of(handle)->handles;
  drop(physical_of(handle));
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemAddressReserve(CUdeviceptr* out, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
  const std::uint64_t step = ration::kGranule.count();
  void* range = ::mmap(nullptr, size + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<std::uint64_t>(range);
  *out = (start + step - 1) & ~(step - 1);
  if (*out > start) ::munmap(range, *out - start);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  return ::munmap(reinterpret_cast<void*>(address), size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RATION_ENTRY cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long) {
  Physical* physical = physical_of(handle);
  if (offset + size > physical->block.extent) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  // A run of granules is one mapping; scattered ones are mapped one by one.
  const std::uint64_t step = physical->block.granules.scattered.empty() ? size : ration::kGranule.count();
  for (std::uint64_t at = 0; at < size; at += step) {
    const std::uint32_t granule = physical->block.granules.at(static_cast<std::uint32_t>((offset + at) >> 21));
    ::mmap(reinterpret_cast<void*>(address + at), step, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           Node::get()->memory_file(physical->block.device), static_cast<off_t>(granule) << 21);
  }
  ++physical->mappings;
  mappings[address] = {size, physical};
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemUnmap(CUdeviceptr address, std::size_t size) {
  const std::lock_guard guard(driver().mutex);
  for (auto entry = mappings.lower_bound(address); entry != mappings.end() && entry->first < address + size;) {
    --entry->second.physical->mappings;
    drop(entry->second.physical);
    entry = mappings.erase(entry);
  }
  ::mmap(reinterpret_cast<void*>(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
         0);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemSetAccess(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) { return CUDA_SUCCESS; }

RATION_ENTRY cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  if (out == nullptr || handle == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  if (physical_of(handle)->shareable) out->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  out->location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal_of(physical_of(handle)->block.device)};
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  const std::lock_guard guard(driver().mutex);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  auto entry = mappings.upper_bound(at);
  if (entry == mappings.begin() || at >= (--entry)->first + entry->second.size) return CUDA_ERROR_INVALID_VALUE;
  ++entry->second.physical->handles;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(entry->second.physical);
  return CUDA_SUCCESS;
}

// The descriptor is a handle like any other: the memory lives while a copy of it is open somewhere.
RATION_ENTRY cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType type, unsigned long long) {
  if (out == nullptr || handle == 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  Physical& physical = *physical_of(handle);
  if (!physical.shareable) return CUDA_ERROR_INVALID_VALUE;
  SharedBlocks& shared = *SharedBlocks::get();
  Block& block = physical.block;
  if (block.published == 0) block.published = shared.publish(block.device, block.granules, block.size);
  SharedBlock same;
  const int descriptor = block.published == 0 ? -1 : shared.hold(block.published, same);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* descriptor,
                                            CUmemAllocationHandleType type) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t id = 0;
  SharedBlock shared;
  if (!SharedBlocks::get()->identify(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), id))
    return CUDA_ERROR_INVALID_VALUE;
  if (!SharedBlocks::get()->import(id, shared)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  auto* physical = new Physical;
  physical->shareable = true;
  physical->block.device = shared.device;
  physical->block.size = shared.size;
  physical->block.extent = std::uint64_t{shared.granules.count} << 21;
  physical->block.granules = shared.granules;
  physical->block.published = id;
  physical->block.imported = true;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemMapArrayAsync(CUarrayMapInfo* entries, unsigned int count, CUstream) {
  return map_arrays(entries, count);
}
RATION_ENTRY cuMemMapArrayAsync_ptsz(CUarrayMapInfo* entries, unsigned int count, CUstream) {
  return map_arrays(entries, count);
}
