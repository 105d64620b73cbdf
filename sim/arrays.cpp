#include "arrays.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "driver/cuda_array_abi.hpp"
#include "driver/cuda_copy_abi.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

struct Array {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  unsigned levels = 1;
  bool is_level = false;           // a level of a mipmapped array, which owns no memory
  Context* unbacked_in = nullptr;  // the context of a sparse or deferred array, which has no memory; null: other arrays
};

auto& arrays() {
  static auto* map = new std::unordered_map<std::uint64_t, Array>;  // never destroyed: atexit handlers call the driver
  return *map;
}

std::uint64_t channel_bytes(CUarray_format format) {
  switch (static_cast<int>(format)) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 0;  // compressed and planar formats are not simulated
  }
}

CUDA_ARRAY3D_DESCRIPTOR level_of(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned level) {
  CUDA_ARRAY3D_DESCRIPTOR smaller = shape;
  smaller.Width = std::max<std::size_t>(1, shape.Width >> level);
  smaller.Height = shape.Height == 0 ? 0 : std::max<std::size_t>(1, shape.Height >> level);
  if ((shape.Flags & CUDA_ARRAY3D_LAYERED) == 0 && shape.Depth != 0)
    smaller.Depth = std::max<std::size_t>(1, shape.Depth >> level);
  return smaller;
}

std::uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return shape.Width * std::max<std::uint64_t>(1, shape.Height) * std::max<std::uint64_t>(1, shape.Depth) *
         channel_bytes(shape.Format) * shape.NumChannels;
}

std::uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  std::uint64_t total = 0;
  for (unsigned level = 0; level < levels; ++level) total += bytes_of(level_of(shape, level));
  return total;
}

bool valid(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  constexpr std::size_t kWidest = 1U << 17;
  const bool sizes = shape.Width > 0 && shape.Width <= kWidest && shape.Height <= kWidest && shape.Depth <= 16384;
  return sizes && channel_bytes(shape.Format) > 0 &&
         (shape.NumChannels == 1 || shape.NumChannels == 2 || shape.NumChannels == 4);
}

std::uint64_t texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return channel_bytes(shape.Format) * shape.NumChannels;
}

constexpr std::uint64_t kTileBytes = 64 << 10;

// Computes the sides of a tile of 64 KiB: powers of two, as equal as possible. Where they differ, the width is the
// largest and the depth the smallest.
void tile_of(const CUDA_ARRAY3D_DESCRIPTOR& shape, std::uint64_t (&tile)[3]) {
  const bool deep = shape.Depth > 0 && (shape.Flags & CUDA_ARRAY3D_LAYERED) == 0;
  unsigned bits = static_cast<unsigned>(std::countr_zero(kTileBytes / texel_bytes(shape)));
  for (unsigned axis = 0, axes = deep ? 3 : 2; axis < 3; ++axis) {
    const unsigned own = axis < axes ? (bits + axes - axis - 1) / (axes - axis) : 0;
    tile[axis] = std::uint64_t{1} << own;
    bits -= own;
  }
}

/// Returns the first level that is smaller than a tile; this level and all after it lie in the tail.
unsigned first_of_tail(const Array& array) {
  std::uint64_t tile[3];
  tile_of(array.shape, tile);
  for (unsigned level = 0; level < array.levels; ++level) {
    const CUDA_ARRAY3D_DESCRIPTOR shape = level_of(array.shape, level);
    if (shape.Width < tile[0] || shape.Height < tile[1] || (tile[2] > 1 && shape.Depth < tile[2])) return level;
  }
  return array.levels;
}

std::uint64_t tail_bytes(const Array& array) {
  std::uint64_t bytes = 0;
  for (unsigned level = first_of_tail(array); level < array.levels; ++level)
    bytes += bytes_of(level_of(array.shape, level));
  return (bytes + kTileBytes - 1) / kTileBytes * kTileBytes;
}

// Reserves an address that has no device memory; copies to this address write to host memory.
CUresult make_unbacked(CUdeviceptr& address, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (shape.Height == 0) return CUDA_ERROR_INVALID_VALUE;  // only 2D and 3D arrays can be sparse or deferred
  void* range = ::mmap(nullptr, bytes_of(shape, levels), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  address = reinterpret_cast<CUdeviceptr>(range);
  return CUDA_SUCCESS;
}

void drop_unbacked(std::uint64_t address, const Array& array) {
  unmap_array(address);
  ::munmap(reinterpret_cast<void*>(address), bytes_of(array.shape, array.levels));
}

template <typename Handle>
CUresult make_array(Handle* out, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels,
                    const char* function = __builtin_FUNCTION()) {
  if (out == nullptr || shape == nullptr || !valid(*shape) || levels == 0) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address = 0;
  // An array takes whole granules, because it never shares a granule with small blocks.
  const std::uint64_t bytes = round_up(Bytes{bytes_of(*shape, levels)}, kGranule).count();
  const bool unbacked = (shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
  if (const CUresult state = unbacked ? ready(0, function) : CUDA_SUCCESS; state != CUDA_SUCCESS) return state;
  const CUresult result = unbacked ? make_unbacked(address, *shape, levels) : allocate_array(&address, bytes, function);
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard guard(driver().mutex);
  arrays()[address] = {*shape, levels, false, unbacked ? current() : nullptr};
  *out = reinterpret_cast<Handle>(address);
  return CUDA_SUCCESS;
}

CUresult destroy(std::uint64_t address, const char* function = __builtin_FUNCTION()) {
  {
    const std::lock_guard guard(driver().mutex);
    const auto found = arrays().find(address);
    if (found == arrays().end() || found->second.is_level) return CUDA_ERROR_INVALID_HANDLE;
    const Array array = found->second;
    forget_arrays(address);
    if (array.unbacked_in != nullptr) return drop_unbacked(address, array), CUDA_SUCCESS;
  }
  return free_array(address, function);
}

bool find(const void* handle, Array& out) {
  const std::lock_guard guard(driver().mutex);
  const auto found = arrays().find(reinterpret_cast<std::uint64_t>(handle));
  if (found == arrays().end()) return false;
  out = found->second;
  return true;
}

}  // namespace

bool layout_of(CUarray handle, ArrayLayout& out) {
  Array array;
  if (!find(handle, array)) return false;
  out.address = reinterpret_cast<std::uint64_t>(handle);
  out.row = array.shape.Width * channel_bytes(array.shape.Format) * array.shape.NumChannels;
  out.height = std::max<std::uint64_t>(1, array.shape.Height);
  out.depth = std::max<std::uint64_t>(1, array.shape.Depth);
  return true;
}

bool find_mappable(const void* handle, std::uint64_t level, MappableArray& out) {
  const auto found = arrays().find(reinterpret_cast<std::uint64_t>(handle));
  if (found == arrays().end() || found->second.unbacked_in == nullptr || level >= found->second.levels) return false;
  const Array& array = found->second;
  const CUDA_ARRAY3D_DESCRIPTOR shape = level_of(array.shape, static_cast<unsigned>(level));
  const bool layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  const std::uint64_t extent[3] = {shape.Width, shape.Height, layered ? 1 : std::max<std::uint64_t>(1, shape.Depth)};
  std::copy(std::begin(extent), std::end(extent), out.extent);
  tile_of(array.shape, out.tile);
  out.levels = array.levels;
  out.layers = layered ? std::max<std::uint64_t>(1, shape.Depth) : 1;
  out.bytes = round_up(Bytes{bytes_of(array.shape, array.levels)}, Bytes{kTileBytes}).count();
  return true;
}

void clear_unbacked_arrays(const Context* context) {
  std::erase_if(arrays(), [&](const auto& entry) {
    if (entry.second.unbacked_in != context) return false;
    drop_unbacked(entry.first, entry.second);
    return true;
  });
}

void forget_arrays(std::uint64_t address) {
  const auto found = arrays().find(address);
  if (found == arrays().end()) return;
  const std::uint64_t end = address + bytes_of(found->second.shape, found->second.levels);
  std::erase_if(arrays(),
                [&](const auto& entry) { return entry.first >= address && entry.first < std::max(end, address + 1); });
}

}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

RATION_ENTRY cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  return make_array(out, shape, 1);
}
RATION_ENTRY cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape) {
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR deep{shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0};
  return make_array(out, &deep, 1);
}
RATION_ENTRY cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned int levels) {
  return make_array(out, shape, std::min(levels, 32U));
}
RATION_ENTRY cuArrayDestroy(CUarray array) { return destroy(reinterpret_cast<CUdeviceptr>(array)); }
RATION_ENTRY cuMipmappedArrayDestroy(CUmipmappedArray array) { return destroy(reinterpret_cast<CUdeviceptr>(array)); }

RATION_ENTRY cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Array array;
  if (out == nullptr || !find(handle, array) || level >= array.levels) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(handle) + bytes_of(array.shape, level);
  if (level > 0) {
    const std::lock_guard guard(driver().mutex);
    arrays()[address] = {level_of(array.shape, level), 1, true};
  }
  *out = reinterpret_cast<CUarray>(address);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Array array;
  if (out == nullptr || !find(handle, array)) return CUDA_ERROR_INVALID_HANDLE;
  *out = array.shape;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Array array;
  if (out == nullptr || !find(handle, array)) return CUDA_ERROR_INVALID_HANDLE;
  *out = {array.shape.Width, array.shape.Height, array.shape.Format, array.shape.NumChannels};
  return CUDA_SUCCESS;
}
RATION_ENTRY cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle, CUdevice) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Array array;
  if (out == nullptr || !find(handle, array) || (array.shape.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *out = {round_up(ration::Bytes{bytes_of(array.shape, array.levels)}, ration::kGranule).count(),
          ration::kGranule.count(),
          {}};
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUmipmappedArray handle,
                                                   CUdevice device) {
  return cuArrayGetMemoryRequirements(out, reinterpret_cast<CUarray>(handle), device);
}

RATION_ENTRY cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  Array array;
  if (out == nullptr || !find(handle, array) || (array.shape.Flags & CUDA_ARRAY3D_SPARSE) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t tile[3];
  tile_of(array.shape, tile);
  *out = {};
  out->tileExtent = {static_cast<unsigned>(tile[0]), static_cast<unsigned>(tile[1]), static_cast<unsigned>(tile[2])};
  out->miptailFirstLevel = first_of_tail(array);
  out->miptailSize = tail_bytes(array);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUmipmappedArray handle) {
  return cuArrayGetSparseProperties(out, reinterpret_cast<CUarray>(handle));
}
