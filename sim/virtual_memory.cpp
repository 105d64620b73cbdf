// Virtual memory management: address ranges, physical memory, and mappings of physical memory into ranges or into
// arrays without memory of their own. Physical memory, of a device or of the host, lives while it has a handle or a
// mapping.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_set>

#include "arrays.hpp"
#include "base/system_calls.hpp"
#include "contents.hpp"
#include "driver.hpp"
#include "driver/cuda_array_abi.hpp"
#include "host_memory.hpp"
#include "shared_blocks.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

constexpr const char* kHostMemory = "ration-sim-host";
constexpr std::string_view kHostMemoryLink = "/memfd:ration-sim-host";

struct Physical {
  Block block;  // for host memory, only its sizes
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  FileDescriptor host;  // memory of the host
  int handles = 1;
  int mappings = 0;
  bool shareable = false;
};
auto& physicals = *new std::unordered_set<Physical*>;  // never destroyed: other threads run while a program ends

struct Mapping {
  std::uint64_t size = 0;
  Physical* physical = nullptr;
};
auto& mappings = *new std::map<std::uint64_t, Mapping>;
auto& reservations = *new std::map<std::uint64_t, std::uint64_t>;  // sizes by address
struct ArrayMapping {
  ArrayRegion region;
  Physical* physical = nullptr;
};
auto& array_mappings = *new std::vector<ArrayMapping>;

/// Finds physical memory by its handle. Returns null if the value is no handle, or all of its references were released.
Physical* physical_of(CUmemGenericAllocationHandle handle) {
  auto* physical = reinterpret_cast<Physical*>(handle);
  return physicals.contains(physical) && physical->handles > 0 ? physical : nullptr;
}

// The objects of released handles. The value of a handle is used again at once, even for another thread.
auto& unused = *new std::vector<std::unique_ptr<Physical>>;

CUmemGenericAllocationHandle add(std::unique_ptr<Physical> physical) {
  if (!unused.empty()) {
    *unused.back() = std::move(*physical);
    physical = std::move(unused.back());
    unused.pop_back();
  }
  physicals.insert(physical.get());
  return reinterpret_cast<CUmemGenericAllocationHandle>(physical.release());
}

void drop(Physical* physical) {
  if (physical->handles > 0 || physical->mappings > 0) return;
  if (physical->host)
    Node::get()->unpin(Bytes{physical->block.extent});
  else
    give_block(physical->block);
  physicals.erase(physical);
  *physical = Physical{};
  unused.emplace_back(physical);
}

bool is_aligned(std::uint64_t value) { return value % kGranule.count() == 0; }

/// Returns true if the range lies within one reservation.
bool is_reserved(std::uint64_t address, std::uint64_t size) {
  auto range = reservations.upper_bound(address);
  if (size == 0 || range == reservations.begin()) return false;
  --range;
  return address - range->first < range->second && size <= range->second - (address - range->first);
}

/// Returns the mappings that together make up exactly the range, in the order of their addresses; none if there are no
/// such mappings.
std::vector<std::uint64_t> mappings_of(std::uint64_t address, std::uint64_t size) {
  std::vector<std::uint64_t> found;
  for (std::uint64_t at = address, left = size; left > 0;) {
    const auto mapping = mappings.find(at);
    if (mapping == mappings.end() || mapping->second.size > left) return {};
    found.push_back(at);
    at += mapping->second.size;
    left -= mapping->second.size;
  }
  return found;
}

bool is_mapped(std::uint64_t address, std::uint64_t size) {
  auto next = mappings.lower_bound(address);
  if (next != mappings.end() && next->first - address < size) return true;
  return next != mappings.begin() && address - (--next)->first < next->second.size;
}

/// Maps physical memory of the host, from `offset` on. Returns false if the system has no room for the mapping.
bool map_host(std::uint64_t address, std::uint64_t size, const Physical& physical, std::uint64_t offset) {
  return ::mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                physical.host.get(), static_cast<off_t>(offset)) != MAP_FAILED;
}

/// Maps physical memory of a device, from `offset` on. A run of granules is one mapping; scattered granules are mapped
/// one by one. Returns false if the system has no room for a mapping; some may be made then.
bool map_device(std::uint64_t address, std::uint64_t size, const Block& block, std::uint64_t offset) {
  const auto first = static_cast<std::uint32_t>(offset >> 21), count = static_cast<std::uint32_t>(size >> 21);
  const std::uint32_t run = block.granules.scattered.empty() ? count : 1;
  for (std::uint32_t at = 0; at < count; at += run) {
    if (!map_granules(address + (std::uint64_t{at} << 21), block.device, block.granules.at(first + at), run))
      return false;
  }
  return true;
}

bool take_host(std::uint64_t size, Physical& out) {
  out.host = FileDescriptor{memory_file(kHostMemory)};
  out.block.size = out.block.extent = size;
  return out.host && ::ftruncate(out.host.get(), static_cast<off_t>(size)) == 0 && Node::get()->pin(Bytes{size});
}

/// Returns true if the descriptor stands for host memory that a process exported. Such a descriptor refers to the
/// memory file itself.
bool is_host_memory(int descriptor) {
  char link[64], target[64] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  return ::readlink(link, target, sizeof target - 1) > 0 &&
         std::strncmp(target, kHostMemoryLink.data(), kHostMemoryLink.size()) == 0;
}

/// Returns true if the driver accepts the entry: the entry names whole tiles of the array and has enough memory for
/// them.
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
  const Physical* physical = physical_of(entry.memHandle.memHandle);
  if (physical == nullptr || physical->host) return false;
  const Block& block = physical->block;
  return entry.memHandleType == CU_MEM_HANDLE_TYPE_GENERIC && entry.offset + bytes <= block.extent &&
         entry.deviceBitMask == 1U << ordinal_of(block.device);
}

/// Unmaps `region`. If a mapping lies only partly in the region, its other parts stay mapped.
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

namespace {

const std::pair<const std::uint64_t, Mapping>* mapping_at(std::uint64_t address) {
  const auto next = mappings.upper_bound(address);
  if (next == mappings.begin()) return nullptr;
  const auto& mapping = *std::prev(next);
  return address - mapping.first < mapping.second.size ? &mapping : nullptr;
}

}  // namespace

bool find_mapped(std::uint64_t address, Allocation& out) {
  const auto* mapping = mapping_at(address);
  if (mapping == nullptr || mapping->second.physical->host) return false;
  out = {mapping->first,
         mapping->second.size,
         mapping->second.physical->block.device,
         nullptr,
         false,
         false,
         nullptr,
         true};
  return true;
}

bool is_reserved(std::uint64_t address) { return is_reserved(address, 1); }

bool find_mapped_host(std::uint64_t address, HostBlock& out) {
  const auto* mapping = mapping_at(address);
  if (mapping == nullptr || !mapping->second.physical->host) return false;
  out = {mapping->first, mapping->second.size};
  return true;
}

}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuMemGetAllocationGranularity(std::size_t* out, const CUmemAllocationProp* properties,
                                           CUmemAllocationGranularity_flags) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  if (const CUresult result = check_location(properties->location, device); result != CUDA_SUCCESS) return result;
  *out = ration::kGranule.count();
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t size, const CUmemAllocationProp* properties,
                         unsigned long long flags) {
  if (const CUresult state = ready(size); state != CUDA_SUCCESS) return state;
  if (out == nullptr || properties == nullptr || flags != 0 || size == 0 || !is_aligned(size) ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  if (const CUresult result = check_location(properties->location, device); result != CUDA_SUCCESS) return result;
  const std::lock_guard guard(driver().mutex);
  auto physical = std::make_unique<Physical>();
  if (!(device < 0 ? take_host(size, *physical) : take_block(device, size, physical->block)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  physical->location = properties->location;
  physical->shareable = (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  *out = add(std::move(physical));
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  Physical* physical = physical_of(handle);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --physical->handles;
  drop(physical);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemAddressReserve(CUdeviceptr* out, std::size_t size, std::size_t alignment, CUdeviceptr,
                                 unsigned long long flags) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || size == 0 || !is_aligned(size) || (alignment & (alignment - 1)) != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t step = std::max<std::uint64_t>(alignment, ration::kGranule.count());
  if (size > ration::kUnlimited.count() || step > ration::kUnlimited.count()) return CUDA_ERROR_OUT_OF_MEMORY;
  void* range = ::mmap(nullptr, size + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto mapped = reinterpret_cast<std::uint64_t>(range), start = (mapped + step - 1) & ~(step - 1);
  if (start > mapped) ::munmap(range, start - mapped);
  if (mapped + step > start) ::munmap(reinterpret_cast<void*>(start + size), mapped + step - start);
  const std::lock_guard guard(driver().mutex);
  reservations[start] = size;
  *out = start;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second != size || is_mapped(address, size)) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(reinterpret_cast<void*>(address), size);
  reservations.erase(found);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  Physical* physical = physical_of(handle);
  if (physical == nullptr || flags != 0 || !is_aligned(address) || !is_aligned(size) || !is_aligned(offset) ||
      !is_reserved(address, size) || is_mapped(address, size) || offset > physical->block.extent ||
      size > physical->block.extent - offset)
    return CUDA_ERROR_INVALID_VALUE;
  if (!(physical->host ? map_host(address, size, *physical, offset)
                       : map_device(address, size, physical->block, offset))) {
    unmap_granules(address, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++physical->mappings;
  mappings[address] = {size, physical};
  return CUDA_SUCCESS;
}

// Unmaps a range that consists of one mapping or of several side by side: "The range must be the entire contiguous
// address range that was mapped to" (driver API).
RATION_ENTRY cuMemUnmap(CUdeviceptr address, std::size_t size) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  const std::vector<std::uint64_t> parts = mappings_of(address, size);
  if (parts.empty()) return CUDA_ERROR_INVALID_VALUE;
  unmap_granules(address, size);
  for (const std::uint64_t part : parts) {
    const auto mapping = mappings.find(part);
    Physical* physical = mapping->second.physical;
    mappings.erase(mapping);
    --physical->mappings;
    drop(physical);
  }
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  if (access == nullptr || count == 0 || mappings_of(address, size).empty()) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    int device = 0;
    if (const CUresult result = check_location(access[i].location, device); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  const Physical* physical = physical_of(handle);
  if (out == nullptr || physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  if (physical->shareable) out->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  out->location = physical->location;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  const auto* mapping = mapping_at(reinterpret_cast<std::uint64_t>(address));
  if (out == nullptr || mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->second.physical->handles;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(mapping->second.physical);
  return CUDA_SUCCESS;
}

// Exports memory as a descriptor, which counts as a handle: the memory lives while a copy of the descriptor is open in
// any process.
RATION_ENTRY cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType type, unsigned long long) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  Physical* physical = physical_of(handle);
  if (out == nullptr || physical == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !physical->shareable)
    return CUDA_ERROR_INVALID_VALUE;
  if (physical->host) {
    const int copy = ::fcntl(physical->host.get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *static_cast<int*>(out) = copy;
    return CUDA_SUCCESS;
  }
  SharedBlocks& shared = *SharedBlocks::get();
  Block& block = physical->block;
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
  const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
  const std::lock_guard guard(driver().mutex);
  auto physical = std::make_unique<Physical>();
  physical->shareable = true;
  std::uint64_t id = 0;
  SharedBlock shared;
  if (is_host_memory(given)) {
    struct stat status {};
    physical->location = {CU_MEM_LOCATION_TYPE_HOST, 0};
    physical->host = ration::FileDescriptor{::fcntl(given, F_DUPFD_CLOEXEC, 0)};
    if (!physical->host || ::fstat(given, &status) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
    physical->block.size = physical->block.extent = static_cast<std::uint64_t>(status.st_size);
    if (!Node::get()->pin(ration::Bytes{physical->block.extent})) return CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    if (!SharedBlocks::get()->identify(given, id) || !SharedBlocks::get()->import(id, shared))
      return CUDA_ERROR_INVALID_VALUE;
    physical->location.id = ordinal_of(shared.device);
    physical->block.device = shared.device;
    physical->block.size = shared.size;
    physical->block.extent = std::uint64_t{shared.granules.count} << 21;
    physical->block.granules = shared.granules;
    physical->block.published = id;
    physical->block.imported = true;
  }
  *out = add(std::move(physical));
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemMapArrayAsync(CUarrayMapInfo* entries, unsigned int count, CUstream) {
  return map_arrays(entries, count);
}
RATION_ENTRY cuMemMapArrayAsync_ptsz(CUarrayMapInfo* entries, unsigned int count, CUstream) {
  return map_arrays(entries, count);
}
