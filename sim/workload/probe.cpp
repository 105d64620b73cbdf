#include "sim/workload/probe.hpp"

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/cuda_managed_abi.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

/// Returns the free bytes of a device, or 0 if this process can have no context.
std::size_t free_on(CUdevice device) {
  std::size_t available = 0, total = 0;
  within(device, [&] { return DRIVER(cuMemGetInfo_v2)(&available, &total); });
  return available;
}

std::vector<CUdeviceptr> pointers;

void free_pointers() {
  for (const CUdeviceptr pointer : pointers) DRIVER(cuMemFree_v2)(pointer);
  pointers.clear();
}

void free_async() {
  for (const CUdeviceptr pointer : pointers) DRIVER(cuMemFreeAsync)(pointer, nullptr);
  pointers.clear();
  DRIVER(cuStreamSynchronize)(nullptr);
}

CUresult kept(CUresult result, const CUdeviceptr& pointer) {  // a reference, since computing `result` sets the pointer
  if (result == CUDA_SUCCESS) pointers.push_back(pointer);
  return result;
}

/// Returns false for managed memory that was advised to stay on the host.
bool may_be_on_device(CUdeviceptr address, std::size_t size) {
  constexpr int kPreferredLocation = 2;  // CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
  constexpr int kHost = -1;              // CU_DEVICE_CPU
  int place = 0;
  return DRIVER(cuMemRangeGetAttribute)(&place, sizeof place, kPreferredLocation, address + size - 1, 1) !=
             CUDA_SUCCESS ||
         place != kHost;
}

CUresult take_managed(CUdeviceptr& address, std::size_t size) {
  if (const CUresult result = kept(DRIVER(cuMemAllocManaged)(&address, size, 1), address); result != CUDA_SUCCESS)
    return result;
  return may_be_on_device(address, size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

struct Mapped {
  CUdeviceptr address;
  std::size_t size;
};

std::vector<Way> plain_ways() {
  static std::vector<CUmemGenericAllocationHandle> handles;
  static std::vector<Mapped> mapped;
  static std::vector<CUarray> arrays;
  static std::vector<CUmipmappedArray> mipmaps;
  const auto small_blocks = [](std::size_t request) {
    for (std::size_t taken = 0; taken < request; taken += 512) {
      CUdeviceptr pointer = 0;
      if (const CUresult result = kept(DRIVER(cuMemAlloc_v2)(&pointer, 512), pointer); result != CUDA_SUCCESS)
        return result;
    }
    return CUDA_SUCCESS;
  };
  const auto drop_handles = [] {
    for (const auto h : handles) DRIVER(cuMemRelease)(h);
    handles.clear();
  };
  const auto drop_arrays = [] {
    for (const CUarray array : arrays) DRIVER(cuArrayDestroy)(array);
    arrays.clear();
  };
  return {
      {"plain",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         return kept(DRIVER(cuMemAlloc_v2)(&p, n), p);
       },
       free_pointers},
      {"managed",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         return take_managed(p, n);
       },
       free_pointers},
      {"pitch-wide",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         std::size_t pitch = 0;
         return kept(DRIVER(cuMemAllocPitch_v2)(&p, &pitch, n / 1024, 1024, 4), p);
       },
       free_pointers},
      {"pitch-narrow",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         std::size_t pitch = 0;
         return kept(DRIVER(cuMemAllocPitch_v2)(&p, &pitch, 4, n / 512, 4), p);
       },
       free_pointers},
      {"async",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         return kept(DRIVER(cuMemAllocAsync)(&p, n, nullptr), p);
       },
       free_async},
      {"async-ptsz",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         return kept(find<cuMemAllocAsync_t>("cuMemAllocAsync_ptsz")(&p, n, nullptr), p);
       },
       free_async},
      {"async-by-address",
       [](std::size_t n) {
         void* entry = nullptr;
         if (DRIVER(cuGetProcAddress_v2)("cuMemAllocAsync", &entry, 13000,
                                         CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr) != CUDA_SUCCESS)
           return CUDA_ERROR_NOT_FOUND;
         CUdeviceptr p = 0;
         return kept(reinterpret_cast<cuMemAllocAsync_t*>(entry)(&p, n, nullptr), p);
       },
       free_async, 0, 1, "cuGetProcAddress_v2"},
      {"async-plain-free",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         return kept(DRIVER(cuMemAllocAsync)(&p, n, nullptr), p);
       },
       [] {
         free_pointers();
         DRIVER(cuStreamSynchronize)(nullptr);
       }},
      {"vmm",
       [](std::size_t n) {
         const auto properties = on_device(0);
         CUmemGenericAllocationHandle h = 0;
         const CUresult result = DRIVER(cuMemCreate)(&h, n, &properties, 0);
         if (result == CUDA_SUCCESS) handles.push_back(h);
         return result;
       },
       drop_handles},
      {"vmm-map-release",
       [](std::size_t n) {
         const auto properties = on_device(0);
         CUmemGenericAllocationHandle h = 0;
         if (const CUresult result = DRIVER(cuMemCreate)(&h, n, &properties, 0); result != CUDA_SUCCESS) return result;
         CUdeviceptr address = 0;
         DRIVER(cuMemAddressReserve)(&address, n, 0, 0, 0);
         const CUresult result = DRIVER(cuMemMap)(address, n, 0, h, 0);
         DRIVER(cuMemRelease)(h);
         if (result == CUDA_SUCCESS) mapped.push_back({address, n});
         return result;
       },
       [] {
         for (const auto& m : mapped) {
           DRIVER(cuMemUnmap)(m.address, m.size);
           DRIVER(cuMemAddressFree)(m.address, m.size);
         }
         mapped.clear();
       }},
      {"array",
       [](std::size_t n) {
         const CUDA_ARRAY_DESCRIPTOR d{8192, n / 8192 / 4, CU_AD_FORMAT_FLOAT, 1};
         CUarray a = nullptr;
         const CUresult result = DRIVER(cuArrayCreate_v2)(&a, &d);
         if (result == CUDA_SUCCESS) arrays.push_back(a);
         return result;
       },
       drop_arrays},
      {"array-3d",
       [](std::size_t n) {
         const CUDA_ARRAY3D_DESCRIPTOR d{1024, 1024, n >> 20, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
         CUarray a = nullptr;
         const CUresult result = DRIVER(cuArray3DCreate_v2)(&a, &d);
         if (result == CUDA_SUCCESS) arrays.push_back(a);
         return result;
       },
       drop_arrays},
      {"mipmap",
       [](std::size_t n) {
         const CUDA_ARRAY3D_DESCRIPTOR d{8192, n / 32768 * 3 / 4, 0, CU_AD_FORMAT_FLOAT, 1, 0};
         CUmipmappedArray a = nullptr;
         const CUresult result = DRIVER(cuMipmappedArrayCreate)(&a, &d, 8);
         if (result == CUDA_SUCCESS) mipmaps.push_back(a);
         return result;
       },
       [] {
         for (const auto a : mipmaps) DRIVER(cuMipmappedArrayDestroy)(a);
         mipmaps.clear();
       }},
      {"small-blocks", small_blocks, free_pointers},
      {"plain-other-device",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         return within(1, [&] { return kept(DRIVER(cuMemAlloc_v2)(&p, n), p); });
       },
       free_pointers, 1, 2},
      {"managed-other-device",
       [](std::size_t n) {
         CUdeviceptr p = 0;
         return within(1, [&] { return take_managed(p, n); });
       },
       free_pointers, 1, 2},
      {"vmm-other-device",
       [](std::size_t n) {
         const auto properties = on_device(1);
         CUmemGenericAllocationHandle h = 0;
         const CUresult result = DRIVER(cuMemCreate)(&h, n, &properties, 0);
         if (result == CUDA_SUCCESS) handles.push_back(h);
         return result;
       },
       drop_handles, 1, 2},
  };
}

}  // namespace

void look_for_the_dead() {
  CUdeviceptr pointer = 0;
  DRIVER(cuMemAlloc_v2)(&pointer, std::size_t{1} << 50);
}

namespace {

std::vector<Way> all_ways() {
  std::vector<Way> all = checkpointed_ways();
  for (auto more :
       {plain_ways(), array_ways(), code_ways(), graph_ways(), pool_ways(), handle_ways(), shared_ways(), child_ways()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Returns the reason why the way cannot be tried, or "" if it can.
std::string obstacle(const Way& way, Ways ways) {
  if (way.devices > tried_devices().size()) return "there is one GPU";
  if (way.function != nullptr && ::dlsym(library, way.function) == nullptr)
    return std::string("the driver has no ") + way.function;
  if (ways == Ways::kInside && std::string_view(way.name).starts_with("child-")) return "held under ration run alone";
  return {};
}

}  // namespace

int probe(std::size_t request, Ways ways) {
  CUcontext context = nullptr;  // kept on each device, so that contexts cost the same at any time
  for (const CUdevice device : tried_devices()) DRIVER(cuDevicePrimaryCtxRetain)(&context, device);
  for (Way& way : all_ways()) {
    if (ways == Ways::kOtherDevice && way.devices == 1) continue;
    if (const std::string why = obstacle(way, ways); !why.empty()) {
      std::fprintf(stderr, "ration-workload: skipped %s: %s\n", way.name, why.c_str());
      continue;
    }
    const std::size_t before = free_on(way.device);
    std::size_t obtained = 0;
    CUresult result = CUDA_SUCCESS;
    while (obtained < std::size_t{64} << 30 && (result = way.take(request)) == CUDA_SUCCESS) obtained += request;
    const std::size_t left = free_on(way.device);
    way.drop_all();
    std::printf("%s %zu %zu %d %s\n", way.name, obtained, left, static_cast<int>(result),
                free_on(way.device) == before ? "returned" : "leaked");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace ration::workload
