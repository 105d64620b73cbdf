// The ways of taking memory from pools: the device's own pool, a new one, many, one that replaces the device's, and
// pools that are trimmed or destroyed meanwhile.
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

std::vector<CUmemoryPool> pools;
std::vector<CUdeviceptr> pointers;
CUstream stream_of_second = nullptr;

CUmemoryPool new_pool(int device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemoryPool pool = nullptr;
  DRIVER(cuMemPoolCreate)(&pool, &properties);
  return pool;
}
CUmemoryPool default_pool(int device) {
  CUmemoryPool pool = nullptr;
  DRIVER(cuDeviceGetDefaultMemPool)(&pool, device);
  return pool;
}
CUmemoryPool first_pool(int device) {
  if (pools.empty()) pools.push_back(new_pool(device));
  return pools.front();
}

CUresult kept(CUresult result, const CUdeviceptr& pointer) {  // a reference, since computing `result` sets the pointer
  if (result == CUDA_SUCCESS) pointers.push_back(pointer);
  return result;
}
CUresult take(std::size_t size, CUstream stream = nullptr) {
  CUdeviceptr pointer = 0;
  return kept(DRIVER(cuMemAllocAsync)(&pointer, size, stream), pointer);
}
CUresult take_from(CUmemoryPool pool, std::size_t size) {
  CUdeviceptr pointer = 0;
  return kept(DRIVER(cuMemAllocFromPoolAsync)(&pointer, size, pool, nullptr), pointer);
}
CUresult take_from_new_pool(std::size_t size) {
  pools.push_back(new_pool(0));
  return take_from(pools.back(), size);
}

/// Takes memory on a stream of the second device, while the first one's context is current.
CUresult take_on_second(std::size_t size) {
  if (stream_of_second == nullptr) {
    const CUresult result = within(1, [] { return DRIVER(cuStreamCreate)(&stream_of_second, 1); });
    if (result != CUDA_SUCCESS) return result;
  }
  return take(size, stream_of_second);
}

/// Takes plain memory of the second device and, once that is denied, memory from the device's pool. If the pool were
/// charged to another device, there would still be room for the pool.
CUresult take_beside_plain(std::size_t size) {
  CUdeviceptr pointer = 0;
  const CUresult result = within(1, [&] { return kept(DRIVER(cuMemAlloc_v2)(&pointer, size), pointer); });
  return result == CUDA_SUCCESS ? result : take_from(default_pool(1), size);
}

void keep_idle(CUmemoryPool pool, bool all) {
  cuuint64_t threshold = all ? ~cuuint64_t{0} : 0;
  DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

void drop() {
  for (const CUdeviceptr pointer : pointers) DRIVER(cuMemFree_v2)(pointer);
  pointers.clear();
  DRIVER(cuStreamSynchronize)(nullptr);
  for (const CUmemoryPool pool : pools) DRIVER(cuMemPoolDestroy)(pool);
  pools.clear();
}

}  // namespace

std::vector<Way> pool_ways() {
  return {
      {"pool", [](std::size_t n) { return take_from(first_pool(0), n); }, drop},
      {"pool-default", [](std::size_t n) { return take_from(default_pool(0), n); }, drop},
      {"pool-keeps",
       [](std::size_t n) {
         // The pool is told to keep all freed memory, so freed memory is still held.
         keep_idle(default_pool(0), true);
         return take(n);
       },
       [] {
         drop();
         keep_idle(default_pool(0), false);
         DRIVER(cuMemPoolTrimTo)(default_pool(0), 0);
       }},
      {"pool-in-place",
       [](std::size_t n) {
         DRIVER(cuDeviceSetMemPool)(0, first_pool(0));
         return take(n);
       },
       [] {
         DRIVER(cuDeviceSetMemPool)(0, default_pool(0));
         drop();
       }},
      {"pool-for-each-request", take_from_new_pool, drop},
      {"pool-behind-many",
       [](std::size_t n) {
         while (pools.size() < 300) pools.push_back(new_pool(0));
         return take_from_new_pool(n);
       },
       drop},
      {"pool-trimmed",
       [](std::size_t n) {
         if (const CUresult result = take_from(first_pool(0), n); result != CUDA_SUCCESS) return result;
         return DRIVER(cuMemPoolTrimTo)(first_pool(0), 0);
       },
       drop},
      {"pool-destroyed",
       [](std::size_t n) {
         const CUmemoryPool pool = new_pool(0);
         const CUresult result = take_from(pool, n);
         DRIVER(cuMemPoolDestroy)(pool);
         return result;
       },
       drop},
      {"pool-other-device", take_beside_plain, drop, 1, 2},
      {"pool-made-other-device", [](std::size_t n) { return take_from(first_pool(1), n); }, drop, 1, 2},
      {"pool-in-place-other-device",
       [](std::size_t n) {
         DRIVER(cuDeviceSetMemPool)(1, first_pool(1));
         return take_on_second(n);
       },
       [] {
         DRIVER(cuDeviceSetMemPool)(1, default_pool(1));
         drop();
       },
       1, 2},
      {"async-other-device", take_on_second, drop, 1, 2},
  };
}

}  // namespace ration::workload
