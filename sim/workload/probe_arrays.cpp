// The ways of taking memory through arrays without memory of their own. Memory that is mapped into such an array stays
// when the handle of the memory is released.
#include "driver/cuda_array_abi.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

constexpr std::size_t kWidth = 8192;  // in 32-bit elements

struct Held {
  CUarray array = nullptr;
  std::size_t height = 0;
};
std::vector<Held> arrays;

CUarrayMapInfo whole(const Held& held, CUmemOperationType operation) {
  CUarrayMapInfo entry{};
  entry.resourceType = CU_RESOURCE_TYPE_ARRAY;
  entry.resource.array = held.array;
  entry.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  entry.subresource.sparseLevel.extentWidth = kWidth;
  entry.subresource.sparseLevel.extentHeight = static_cast<unsigned>(held.height);
  entry.subresource.sparseLevel.extentDepth = 1;
  entry.memOperationType = operation;
  entry.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  entry.deviceBitMask = 1;
  return entry;
}

/// Makes an array of `size` bytes, maps memory of that size into it, and releases the handle.
CUresult take(std::size_t size, unsigned int flags) {
  Held held;
  held.height = size / kWidth / 4;
  const CUDA_ARRAY3D_DESCRIPTOR shape{kWidth, held.height, 0, CU_AD_FORMAT_FLOAT, 1, flags};
  if (const CUresult result = DRIVER(cuArray3DCreate_v2)(&held.array, &shape); result != CUDA_SUCCESS) return result;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.allocFlags.usage = 1;  // CU_MEM_CREATE_USAGE_TILE_POOL
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = DRIVER(cuMemCreate)(&handle, size, &properties, 0);
  if (result == CUDA_SUCCESS) {
    CUarrayMapInfo entry = whole(held, CU_MEM_OPERATION_TYPE_MAP);
    entry.memHandle.memHandle = handle;
    result = DRIVER(cuMemMapArrayAsync)(&entry, 1, nullptr);
    DRIVER(cuMemRelease)(handle);
  }
  if (result == CUDA_SUCCESS)
    arrays.push_back(held);
  else
    DRIVER(cuArrayDestroy)(held.array);
  return result;
}

void destroy() {
  for (const Held& held : arrays) DRIVER(cuArrayDestroy)(held.array);
  arrays.clear();
}

/// Unmaps one row of tiles after the other, like a program that streams textures. The arrays stay.
void unmap() {
  for (const Held& held : arrays) {
    CUarrayMapInfo entry = whole(held, CU_MEM_OPERATION_TYPE_UNMAP);
    entry.subresource.sparseLevel.extentHeight = 128;  // the height of a tile of 32-bit elements
    for (std::size_t row = 0; row < held.height; row += 128) {
      entry.subresource.sparseLevel.offsetY = static_cast<unsigned>(row);
      DRIVER(cuMemMapArrayAsync)(&entry, 1, nullptr);
    }
  }
}

}  // namespace

std::vector<Way> array_ways() {
  return {
      {"array-sparse", [](std::size_t n) { return take(n, CUDA_ARRAY3D_SPARSE); }, destroy},
      {"array-deferred", [](std::size_t n) { return take(n, CUDA_ARRAY3D_DEFERRED_MAPPING); }, destroy},
      {"array-unmapped", [](std::size_t n) { return take(n, CUDA_ARRAY3D_SPARSE); }, unmap},
  };
}

}  // namespace ration::workload
