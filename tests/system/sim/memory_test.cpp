// Memory of the simulated driver by kind: pinned, in pools of the device and of the host, physical; and what addresses
// without memory are answered.
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "driver/cuda_copy_abi.hpp"
#include "simulated.hpp"

namespace ration::testing {
namespace {

using MemoryTest = Simulated;

template <typename Value>
Value attribute(CUpointer_attribute which, const void* address) {
  Value value{};
  EXPECT_EQ((call<void*, CUpointer_attribute, CUdeviceptr>("cuPointerGetAttribute", &value, which,
                                                           reinterpret_cast<CUdeviceptr>(address))),
            CUDA_SUCCESS);
  return value;
}

TEST_F(MemoryTest, PinnedMemoryHasTheDeviceAndTheContextThatItWasTakenIn) {
  CUcontext own = nullptr;
  ASSERT_EQ(CU(cuCtxGetCurrent)(&own), CUDA_SUCCESS);
  void *allocated = nullptr, *plain = nullptr;
  std::vector<char> registered(8192);
  ASSERT_EQ(CU(cuMemHostAlloc)(&allocated, 5000, 0), CUDA_SUCCESS);
  ASSERT_EQ((call<void**, std::size_t>("cuMemAllocHost_v2", &plain, 5000)), CUDA_SUCCESS);
  ASSERT_EQ((call<void*, std::size_t, unsigned>("cuMemHostRegister_v2", registered.data(), 8192, 0)), CUDA_SUCCESS);
  for (const void* each : {allocated, plain, static_cast<void*>(registered.data())}) {
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, each), 0);
    EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, each), own);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, each), static_cast<int>(CU_MEMORYTYPE_HOST));
  }
  EXPECT_EQ(CU(cuMemFreeHost)(allocated), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFreeHost)(plain), CUDA_SUCCESS);
  EXPECT_EQ(call<void*>("cuMemHostUnregister", registered.data()), CUDA_SUCCESS);
}

CUmemoryPool pool_at(CUmemLocation location, std::size_t most = 0) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location;
  properties.maxSize = most;
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(CU(cuMemPoolCreate)(&pool, &properties), CUDA_SUCCESS);
  return pool;
}
constexpr CUmemLocation kDevice{CU_MEM_LOCATION_TYPE_DEVICE, 0}, kHost{CU_MEM_LOCATION_TYPE_HOST, 0},
    kHostNode{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};

TEST_F(MemoryTest, APoolReservesNoMoreThanItsMaximumAndCanBeUsedUpToThere) {
  const CUmemoryPool pool = pool_at(kDevice, 256 * kMiB);
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (CU(cuMemAllocFromPoolAsync)(&block, 50 * kMiB, pool, nullptr) == CUDA_SUCCESS) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 5U);
  EXPECT_EQ(CU(cuMemAllocFromPoolAsync)(&block, 50 * kMiB, pool, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  std::uint64_t reserved = 0;
  ASSERT_EQ(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved), CUDA_SUCCESS);
  EXPECT_LE(reserved, 256 * kMiB);
  for (int i = 0; i < 2; ++i) {  // what is idle makes room for a larger block
    EXPECT_EQ(CU(cuMemFreeAsync)(blocks.back(), nullptr), CUDA_SUCCESS);
    blocks.pop_back();
  }
  ASSERT_EQ(CU(cuMemAllocFromPoolAsync)(&block, 100 * kMiB, pool, nullptr), CUDA_SUCCESS);
  blocks.push_back(block);
  for (const CUdeviceptr each : blocks) EXPECT_EQ(CU(cuMemFreeAsync)(each, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS);
}

TEST_F(MemoryTest, TheCurrentPoolOfADeviceIsTheOneThatWasSet) {
  CUmemoryPool usual = nullptr, now = nullptr;
  CUdeviceptr block = 0;
  std::uint64_t used = 0;
  const CUmemoryPool pool = pool_at(kDevice), host = pool_at(kHost);
  ASSERT_EQ(CU(cuDeviceGetDefaultMemPool)(&usual, 0), CUDA_SUCCESS);
  ASSERT_EQ((call<CUdevice, CUmemoryPool>("cuDeviceSetMemPool", 0, pool)), CUDA_SUCCESS);
  ASSERT_EQ((call<CUmemoryPool*, CUdevice>("cuDeviceGetMemPool", &now, 0)), CUDA_SUCCESS);
  EXPECT_EQ(now, pool);
  ASSERT_EQ(CU(cuMemAllocAsync)(&block, kMiB, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
  EXPECT_EQ(used, kMiB);
  EXPECT_EQ(CU(cuMemFreeAsync)(block, nullptr), CUDA_SUCCESS);
  EXPECT_EQ((call<CUdevice, CUmemoryPool>("cuDeviceSetMemPool", 0, host)), CUDA_ERROR_INVALID_VALUE)
      << "another place's";
  EXPECT_EQ(CU(cuMemPoolDestroy)(usual), CUDA_ERROR_INVALID_VALUE) << "it is always there";
  EXPECT_EQ(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS);
  ASSERT_EQ((call<CUmemoryPool*, CUdevice>("cuDeviceGetMemPool", &now, 0)), CUDA_SUCCESS);
  EXPECT_EQ(now, usual) << "where the current one was destroyed";
  EXPECT_EQ((call<CUdevice, CUmemoryPool>("cuDeviceSetMemPool", 0, pool)), CUDA_ERROR_INVALID_VALUE) << "destroyed";
  EXPECT_EQ(CU(cuMemPoolDestroy)(host), CUDA_SUCCESS);
}

TEST_F(MemoryTest, PoolsAreKeptByTheirPlaces) {
  using Get = CUresult(CUmemoryPool*, CUmemLocation*, CUmemAllocationType);
  auto* usual_of = driver_function<Get>("cuMemGetDefaultMemPool");
  auto* current_of = driver_function<Get>("cuMemGetMemPool");
  auto* set = driver_function<CUresult(CUmemLocation*, CUmemAllocationType, CUmemoryPool)>("cuMemSetMemPool");
  for (CUmemLocation place : {kDevice, kHost, kHostNode}) {
    CUmemoryPool usual = nullptr, now = nullptr;
    const CUmemoryPool own = pool_at(place);
    ASSERT_EQ(usual_of(&usual, &place, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
    ASSERT_EQ(current_of(&now, &place, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
    EXPECT_EQ(now, usual);
    ASSERT_EQ(set(&place, CU_MEM_ALLOCATION_TYPE_PINNED, own), CUDA_SUCCESS);
    ASSERT_EQ(current_of(&now, &place, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
    EXPECT_EQ(now, own);
    EXPECT_EQ(CU(cuMemPoolDestroy)(own), CUDA_SUCCESS);
  }
  CUmemLocation device = kDevice, node{CU_MEM_LOCATION_TYPE_HOST_NUMA, 900}, none{CU_MEM_LOCATION_TYPE_INVALID, 0};
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(current_of(&pool, &device, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(current_of(&pool, &node, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(current_of(&pool, &none, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, MemoryOfTheHostTakesNothingOfTheDevice) {
  const std::size_t before = free_bytes();
  for (const CUmemLocation place : {kHost, kHostNode}) {
    const CUmemoryPool pool = pool_at(place);
    CUdeviceptr block = 0;
    ASSERT_EQ(CU(cuMemAllocFromPoolAsync)(&block, 2048 * kMiB, pool, nullptr), CUDA_SUCCESS)
        << "more than the device has";
    EXPECT_EQ(free_bytes(), before);
    *reinterpret_cast<int*>(block) = 7;
    int word = 0;
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&word, block, sizeof word), CUDA_SUCCESS);
    EXPECT_EQ(word, 7);
    const auto* address = reinterpret_cast<const void*>(block);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), static_cast<int>(CU_MEMORYTYPE_HOST));
    EXPECT_EQ(attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address), pool);
    EXPECT_EQ(CU(cuMemFreeAsync)(block, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS);
  }
  constexpr CUmemLocation kCurrentNode{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  for (const CUmemLocation place : {kHost, kHostNode, kCurrentNode}) {
    constexpr std::size_t kSize = 2048 * kMiB;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = place;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0, other = 0;
    CUdeviceptr address = 0, second = 0;
    int descriptor = -1;
    ASSERT_EQ(CU(cuMemCreate)(&handle, kSize, &properties, 0), CUDA_SUCCESS);
    CUmemAllocationProp told{};
    ASSERT_EQ(CU(cuMemGetAllocationPropertiesFromHandle)(&told, handle), CUDA_SUCCESS);
    EXPECT_EQ(told.location.type, place.type);
    ASSERT_EQ(CU(cuMemAddressReserve)(&address, kSize, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemMap)(address, kSize, 0, handle, 0), CUDA_SUCCESS);
    const CUmemAccessDesc access[] = {{kDevice, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                      {kHostNode, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    EXPECT_EQ(CU(cuMemSetAccess)(address, kSize, access, 2), CUDA_SUCCESS);
    *reinterpret_cast<int*>(address + kSize / 2) = 9;
    ASSERT_EQ(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              CUDA_SUCCESS);
    ASSERT_EQ(
        CU(cuMemImportFromShareableHandle)(&other, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        CUDA_SUCCESS);
    ::close(descriptor);
    ASSERT_EQ(CU(cuMemAddressReserve)(&second, kSize, 0, 0, 0), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemMap)(second, kSize, 0, other, 0), CUDA_SUCCESS);
    int word = 0;
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&word, second + kSize / 2, sizeof word), CUDA_SUCCESS);
    EXPECT_EQ(word, 9) << "one memory, twice";
    EXPECT_EQ(free_bytes(), before);
    for (const CUdeviceptr each : {address, second}) {
      EXPECT_EQ(CU(cuMemUnmap)(each, kSize), CUDA_SUCCESS);
      EXPECT_EQ(CU(cuMemAddressFree)(each, kSize), CUDA_SUCCESS);
    }
    EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemRelease)(other), CUDA_SUCCESS);
  }
}

TEST_F(MemoryTest, RangesHandlesAndMappingsAreChecked) {
  constexpr std::size_t kSize = 4 * kMiB;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = kDevice;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  ASSERT_EQ(CU(cuMemCreate)(&handle, kSize, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemMap)(CUdeviceptr{1} << 40, kSize, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "not reserved";
  ASSERT_EQ(CU(cuMemAddressReserve)(&range, 2 * kSize, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemMap)(range + 2 * kSize - kSize / 2, kSize, 0, handle, 0), CUDA_ERROR_INVALID_VALUE)
      << "reaches out";
  EXPECT_EQ(CU(cuMemMap)(range, 2 * kSize, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "larger than the memory";
  EXPECT_EQ(CU(cuMemMap)(range, kSize, 0, handle + 64, 0), CUDA_ERROR_INVALID_VALUE) << "no handle";
  ASSERT_EQ(CU(cuMemMap)(range, kSize, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemMap)(range, kSize, 0, handle, 0), CUDA_ERROR_INVALID_VALUE) << "mapped already";
  EXPECT_EQ(CU(cuMemUnmap)(range, kSize / 2), CUDA_ERROR_INVALID_VALUE) << "a part of it";
  EXPECT_EQ(CU(cuMemUnmap)(range + kSize, kSize), CUDA_ERROR_INVALID_VALUE) << "nothing there";
  EXPECT_EQ(CU(cuMemAddressFree)(range, 2 * kSize), CUDA_ERROR_INVALID_VALUE) << "mapped";
  EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_ERROR_INVALID_VALUE) << "twice";
  EXPECT_EQ(CU(cuMemUnmap)(range, kSize), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemUnmap)(range, kSize), CUDA_ERROR_INVALID_VALUE) << "twice";
  EXPECT_EQ(CU(cuMemAddressFree)(range, kSize), CUDA_ERROR_INVALID_VALUE) << "not as it was reserved";
  EXPECT_EQ(CU(cuMemAddressFree)(range, 2 * kSize), CUDA_SUCCESS);
}

/// Every kind of call that reads or writes `size` bytes at `address`; its answers.
std::vector<CUresult> answers(CUdeviceptr address, std::size_t size, CUdeviceptr good, CUstream stream = nullptr) {
  std::vector<unsigned char> own(8 * kMiB);
  auto* host = own.data();
  const std::size_t words = size / 4;
  const auto plane = [&](bool writes) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = writes ? good : address;
    copy.dstDevice = writes ? address : good;
    copy.WidthInBytes = size / 2, copy.Height = 2;
    return copy;
  };
  const auto body = [&](bool writes) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = writes ? good : address;
    copy.dstDevice = writes ? address : good;
    copy.WidthInBytes = size / 4, copy.Height = 2, copy.Depth = 2, copy.srcHeight = copy.dstHeight = 2;
    return copy;
  };
  const CUDA_MEMCPY2D in_plane = plane(true), out_plane = plane(false);
  const CUDA_MEMCPY3D in_body = body(true), out_body = body(false);
  CUcontext context = nullptr;
  EXPECT_EQ(CU(cuCtxGetCurrent)(&context), CUDA_SUCCESS);
  return {
      CU(cuMemcpyHtoD_v2)(address, host, size),
      CU(cuMemcpyDtoH_v2)(host, address, size),
      CU(cuMemcpyDtoD_v2)(address, good, size),
      CU(cuMemcpyDtoD_v2)(good, address, size),
      call("cuMemcpy", address, good, size),
      call("cuMemcpy", good, address, size),
      call("cuMemcpyPeer", address, context, good, context, size),
      call<CUdeviceptr, const void*, std::size_t, CUstream>("cuMemcpyHtoDAsync_v2", address, host, size, stream),
      call<void*, CUdeviceptr, std::size_t, CUstream>("cuMemcpyDtoHAsync_v2", host, address, size, stream),
      CU(cuMemcpyDtoDAsync_v2)(address, good, size, stream),
      call("cuMemcpyAsync", address, good, size, stream),
      call("cuMemcpyPeerAsync", good, context, address, context, size, stream),
      call("cuMemcpy2D_v2", &in_plane),
      call("cuMemcpy2D_v2", &out_plane),
      call("cuMemcpy2DUnaligned_v2", &in_plane),
      call("cuMemcpy2DAsync_v2", &in_plane, stream),
      call("cuMemcpy3D_v2", &in_body),
      call("cuMemcpy3D_v2", &out_body),
      call("cuMemcpy3DAsync_v2", &out_body, stream),
      CU(cuMemsetD8_v2)(address, 1, size),
      call("cuMemsetD16_v2", address, static_cast<unsigned short>(1), size / 2),
      CU(cuMemsetD32_v2)(address, 1, words),
      call("cuMemsetD8Async", address, static_cast<unsigned char>(1), size, stream),
      call("cuMemsetD32Async", address, 1U, words, stream),
      call("cuMemsetD2D8_v2", address, size / 2, static_cast<unsigned char>(1), size / 2, std::size_t{2}),
      call("cuMemsetD2D32Async", address, size / 2, 1U, words / 2, std::size_t{2}, stream),
  };
}

// The size of a range whose middle stays unmapped after the range is unmapped: the kernel puts later mappings, such as
// those of a sanitizer, at the upper end of the gap.
constexpr std::size_t kGap = std::size_t{1} << 30;

/// Returns an address in the middle of a range that was the program's own and is no longer mapped.
CUdeviceptr given_back_to_the_kernel() {
  void* const range = ::mmap(nullptr, kGap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(range, MAP_FAILED);
  ::munmap(range, kGap);
  return reinterpret_cast<CUdeviceptr>(range) + kGap / 2;
}

TEST_F(MemoryTest, AnAddressWithoutMemoryIsAnsweredByEveryCopyAndFill) {
  constexpr std::size_t kSize = 4 * kMiB;
  CUdeviceptr good = 0, block = 0, small = 0, freed = 0, freed_async = 0, range = 0, closed = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&good, kSize), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAlloc_v2)(&block, kSize), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAlloc_v2)(&small, 4096), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAlloc_v2)(&freed, kSize), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemFree_v2)(freed), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAllocAsync)(&freed_async, kSize, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemFreeAsync)(freed_async, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuCtxSynchronize)(), CUDA_SUCCESS);  // the pool keeps nothing
  ASSERT_EQ(CU(cuMemAllocManaged)(&closed, kSize, 1), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemFree_v2)(closed), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAddressReserve)(&range, 2 * kSize, 0, 0, 0), CUDA_SUCCESS);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = kDevice;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(CU(cuMemCreate)(&handle, kSize, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemMap)(range, kSize, 0, handle, 0), CUDA_SUCCESS);
  void *small_of_host = nullptr, *large_of_host = nullptr;
  ASSERT_EQ(CU(cuMemHostAlloc)(&small_of_host, 4096, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemHostAlloc)(&large_of_host, kGap, 0), CUDA_SUCCESS);
  for (void* const each : {small_of_host, large_of_host}) ASSERT_EQ(CU(cuMemFreeHost)(each), CUDA_SUCCESS);
  const struct {
    const char* kind;
    CUdeviceptr address;
    std::size_t size;
  } wrong[] = {
      {"pinned, and freed", reinterpret_cast<CUdeviceptr>(small_of_host), 64},
      {"pinned, large, and freed", reinterpret_cast<CUdeviceptr>(large_of_host) + kGap / 2, 64},
      {"null", 0, 64},
      {"given back to the kernel", given_back_to_the_kernel(), 64},
      {"out of all addresses", ~CUdeviceptr{0} - 63, 64},
      {"freed", freed, 64},
      {"freed in its pool", freed_async, 64},
      {"managed, and freed", closed, 64},
      {"over the end", block + kSize - 64, 128},
      {"over the end of a small one", small + 4032, 128},
      {"larger than all addresses", block, ~std::size_t{0} - 4095},
      {"reserved, not mapped", range + kSize, 64},
      {"over the end of what is mapped", range + kSize - 64, 128},
  };
  for (const auto& [kind, address, size] : wrong) {
    SCOPED_TRACE(kind);
    const auto given = answers(address, size, good);
    for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(given[i], CUDA_ERROR_INVALID_VALUE) << "call " << i;
  }
  for (const CUdeviceptr right : {block, block + kSize - 64, small + 4032, range, range + kSize - 64}) {
    const auto given = answers(right, 64, good);
    for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(given[i], CUDA_SUCCESS) << "call " << i;
  }
  ASSERT_EQ(CU(cuMemUnmap)(range, kSize), CUDA_SUCCESS);
  for (const CUresult each : answers(range, 64, good)) EXPECT_EQ(each, CUDA_ERROR_INVALID_VALUE) << "unmapped";
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(block, nullptr, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(nullptr, block, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(block, reinterpret_cast<void*>(64), 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemAddressFree)(range, 2 * kSize), CUDA_SUCCESS);
  for (const CUdeviceptr each : {good, block, small}) EXPECT_EQ(CU(cuMemFree_v2)(each), CUDA_SUCCESS);
}

TEST_F(MemoryTest, MappingsSideBySideAreCopiedAsOne) {
  constexpr std::size_t kSize = 2 * kMiB;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = kDevice;
  CUdeviceptr range = 0;
  ASSERT_EQ(CU(cuMemAddressReserve)(&range, 2 * kSize, 0, 0, 0), CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(CU(cuMemCreate)(&handle, kSize, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemMap)(range + i * kSize, kSize, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
  }
  EXPECT_EQ(CU(cuMemsetD8_v2)(range, 5, 2 * kSize), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemsetD8_v2)(range + 1, 5, 2 * kSize), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemUnmap)(range, 2 * kSize), CUDA_SUCCESS) << "both at once";
  EXPECT_EQ(CU(cuMemAddressFree)(range, 2 * kSize), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ration::testing
