// The driver's arrays whose memory is mapped later, in declarations of our own from NVIDIA's manual of the driver API,
// and the arithmetic on parts of such arrays. Used by the guard and the simulated driver.
//
// An array made with CUDA_ARRAY3D_SPARSE or CUDA_ARRAY3D_DEFERRED_MAPPING has no memory. cuMemMapArrayAsync() maps
// parts of the memory of cuMemCreate() handles into such an array. Like any mapping, this keeps the handle's memory
// alive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "driver/cuda_abi.hpp"

namespace ration::cuda {

inline constexpr unsigned int CUDA_ARRAY3D_LAYERED = 0x01, CUDA_ARRAY3D_SPARSE = 0x40,
                              CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80;

enum CUresourcetype : int { CU_RESOURCE_TYPE_ARRAY = 0, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY = 1 };
enum CUarraySparseSubresourceType : int {
  CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL = 0,
  CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL = 1,
};
enum CUmemOperationType : int { CU_MEM_OPERATION_TYPE_MAP = 1, CU_MEM_OPERATION_TYPE_UNMAP = 2 };
enum CUmemHandleType : int { CU_MEM_HANDLE_TYPE_GENERIC = 0 };

struct CUarrayMapInfo {
  CUresourcetype resourceType;
  union {
    CUmipmappedArray mipmap;
    CUarray array;
  } resource;
  CUarraySparseSubresourceType subresourceType;
  union {
    struct {
      unsigned int level, layer, offsetX, offsetY, offsetZ, extentWidth, extentHeight, extentDepth;
    } sparseLevel;
    struct {
      unsigned int layer;
      unsigned long long offset, size;
    } miptail;
  } subresource;
  CUmemOperationType memOperationType;
  CUmemHandleType memHandleType;
  union {
    CUmemGenericAllocationHandle memHandle;
  } memHandle;
  unsigned long long offset;
  unsigned int deviceBitMask, flags, reserved[2];
};
static_assert(sizeof(CUarrayMapInfo) == 96 && offsetof(CUarrayMapInfo, memHandle) == 64);

struct CUDA_ARRAY_SPARSE_PROPERTIES {
  struct {
    unsigned int width, height, depth;
  } tileExtent;
  unsigned int miptailFirstLevel;
  unsigned long long miptailSize;
  unsigned int flags, reserved[4];
};

using cuMemMapArrayAsync_t = CUresult(CUarrayMapInfo*, unsigned int, CUstream);
using cuArrayGetSparseProperties_t = CUresult(CUDA_ARRAY_SPARSE_PROPERTIES*, CUarray);

}  // namespace ration::cuda

namespace ration {

/// A box of elements in one layer of one level, or a range of bytes in the tail. The tail holds the levels that are
/// smaller than a tile.
struct ArrayRegion {
  std::uint64_t array = 0, subresource = 0;
  std::uint64_t begin[3] = {}, end[3] = {};
};

[[nodiscard]] inline ArrayRegion region_of(const cuda::CUarrayMapInfo& entry) noexcept {
  ArrayRegion region;
  region.array = reinterpret_cast<std::uint64_t>(entry.resource.array);
  const auto& box = entry.subresource.sparseLevel;
  const auto& tail = entry.subresource.miptail;
  if (entry.subresourceType == cuda::CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    region.subresource = std::uint64_t{1} << 63 | tail.layer;
    region.begin[0] = tail.offset;
    region.end[0] = tail.offset + tail.size;
    region.end[1] = region.end[2] = 1;
    return region;
  }
  region.subresource = std::uint64_t{box.level} << 32 | box.layer;
  const std::uint64_t offset[3] = {box.offsetX, box.offsetY, box.offsetZ};
  const std::uint64_t extent[3] = {box.extentWidth, box.extentHeight, box.extentDepth};
  for (int axis = 0; axis < 3; ++axis) {
    region.begin[axis] = offset[axis];
    region.end[axis] = offset[axis] + std::max<std::uint64_t>(1, extent[axis]);
  }
  return region;
}

[[nodiscard]] inline bool overlap(const ArrayRegion& left, const ArrayRegion& right) noexcept {
  bool common = left.array == right.array && left.subresource == right.subresource;
  for (int axis = 0; axis < 3; ++axis)
    common = common && left.begin[axis] < right.end[axis] && right.begin[axis] < left.end[axis];
  return common;
}

/// Calls `keep` with each of the at most six boxes that remain of `whole` without `taken`. The two must overlap.
template <typename Keep>
void subtract(ArrayRegion whole, const ArrayRegion& taken, Keep&& keep) {
  for (int axis = 0; axis < 3; ++axis) {
    if (whole.begin[axis] < taken.begin[axis]) {
      ArrayRegion before = whole;
      before.end[axis] = whole.begin[axis] = taken.begin[axis];
      keep(before);
    }
    if (taken.end[axis] < whole.end[axis]) {
      ArrayRegion after = whole;
      after.begin[axis] = whole.end[axis] = taken.end[axis];
      keep(after);
    }
  }
}

}  // namespace ration
