// The simulated driver as one program sees it: contents of copies, shapes of arrays, streams, events, attributes, host
// memory, modules, errors.
#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "driver/cuda_array_abi.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "simulated.hpp"

namespace ration::testing {
namespace {

class DriverTest : public Simulated {
 protected:
  CUdeviceptr take(std::size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&address, size), CUDA_SUCCESS);
    return address;
  }
  void drop(CUdeviceptr address) { EXPECT_EQ(CU(cuMemFree_v2)(address), CUDA_SUCCESS); }
  static std::vector<unsigned char> counting(std::size_t size) {
    std::vector<unsigned char> bytes(size);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
    return bytes;
  }
};

TEST_F(DriverTest, CopiesKeepContentsInEveryDirection) {
  const auto source = counting(3 * kMiB + 7);
  std::vector<unsigned char> target(source.size());
  const CUdeviceptr one = take(source.size()), two = take(source.size());
  ASSERT_EQ(CU(cuMemcpyHtoD_v2)(one, source.data(), source.size()), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemcpyDtoDAsync_v2)(two, one, source.size(), nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(target.data(), two, source.size()), CUDA_SUCCESS);
  EXPECT_EQ(source, target);
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(0, source.data(), 4), CUDA_ERROR_INVALID_VALUE);
  drop(one), drop(two);
}

TEST_F(DriverTest, FillsWriteTheirPatternAndNothingBeside) {
  const CUdeviceptr at = take(4096);
  std::vector<unsigned> words(16, 7);
  ASSERT_EQ(CU(cuMemcpyHtoD_v2)(at, words.data(), 64), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemsetD32_v2)(at + 4, 0xabcd1234, 3), CUDA_SUCCESS);
  ASSERT_EQ(
      call("cuMemsetD2D8_v2", at + 32, std::size_t{16}, static_cast<unsigned char>(9), std::size_t{2}, std::size_t{2}),
      CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(words.data(), at, 64), CUDA_SUCCESS);
  EXPECT_EQ(words, (std::vector<unsigned>{7, 0xabcd1234, 0xabcd1234, 0xabcd1234, 7, 7, 7, 7, 0x0909, 7, 7, 7, 0x0909, 7,
                                          7, 7}));
  EXPECT_EQ(CU(cuMemsetD32_v2)(at + 1, 0, 1), CUDA_ERROR_INVALID_VALUE) << "not aligned";
  drop(at);
}

/// Returns the bytes that the node's files take from the host.
std::uintmax_t on_host() {
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(std::getenv("RATION_SIM_DIR"))) {
    struct stat status {};
    if (file.is_regular_file() && ::stat(file.path().c_str(), &status) == 0)
      bytes += static_cast<std::uintmax_t>(status.st_blocks) * 512;
  }
  return bytes;
}

TEST_F(DriverTest, ZerosAreReadBackAndTakeNoMemoryOfTheHostWhereNothingWasWritten) {
  constexpr std::size_t kSize = 64 * kMiB;
  const CUdeviceptr at = take(kSize);
  const std::uintmax_t before = on_host();
  ASSERT_EQ(CU(cuMemsetD8_v2)(at, 0, kSize), CUDA_SUCCESS);
  EXPECT_LT(on_host(), before + kMiB);
  const auto source = counting(9 * kMiB);
  ASSERT_EQ(CU(cuMemcpyHtoD_v2)(at + 3 * kMiB, source.data(), source.size()), CUDA_SUCCESS);
  EXPECT_GE(on_host(), before + source.size());
  ASSERT_EQ(CU(cuMemsetD8_v2)(at + 5 * kMiB + 1, 0, 2 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemsetD32_v2)(at + 11 * kMiB, 0, 10 * kMiB), CUDA_SUCCESS);
  EXPECT_LT(on_host(), before + 16 * kMiB);
  std::vector<unsigned char> expected(kSize), target(kSize, 5);
  std::copy(source.begin(), source.end(), expected.begin() + 3 * kMiB);
  std::fill_n(expected.begin() + 5 * kMiB + 1, 2 * kMiB, static_cast<unsigned char>(0));
  std::fill(expected.begin() + 11 * kMiB, expected.end(), static_cast<unsigned char>(0));
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(target.data(), at, kSize), CUDA_SUCCESS);
  EXPECT_TRUE(target == expected);
  const CUdeviceptr copied = take(kSize);
  ASSERT_EQ(CU(cuMemcpyDtoDAsync_v2)(copied, at + 16 * kMiB, kSize - 16 * kMiB, nullptr), CUDA_SUCCESS);
  EXPECT_LT(on_host(), before + 16 * kMiB);
  ASSERT_EQ(CU(cuMemcpyDtoDAsync_v2)(copied, at, 4 * kMiB, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(target.data(), copied, kSize), CUDA_SUCCESS);
  std::fill(expected.begin() + 4 * kMiB, expected.end(), static_cast<unsigned char>(0));
  EXPECT_TRUE(target == expected);
  drop(at), drop(copied);
}

constexpr std::size_t kTaken = 16 * kMiB;

/// Device memory of kTaken bytes, taken in one of the ways that a program has.
struct Taken {
  CUdeviceptr address = 0;
  std::function<void()> give;
};

Taken plain() {
  Taken taken;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&taken.address, kTaken), CUDA_SUCCESS);
  taken.give = [=] { EXPECT_EQ(CU(cuMemFree_v2)(taken.address), CUDA_SUCCESS); };
  return taken;
}

Taken from_gaps() {
  std::vector<CUdeviceptr> blocks(1);
  while (CU(cuMemAlloc_v2)(&blocks.back(), 4 * kMiB) == CUDA_SUCCESS) blocks.push_back(0);
  blocks.pop_back();
  for (std::size_t i = 0; i < 8; i += 2) EXPECT_EQ(CU(cuMemFree_v2)(std::exchange(blocks[i], 0)), CUDA_SUCCESS);
  Taken taken = plain();
  std::erase(blocks, CUdeviceptr{0});
  for (const CUdeviceptr block : blocks) EXPECT_EQ(CU(cuMemFree_v2)(block), CUDA_SUCCESS);
  return taken;
}

Taken from_a_pool() {
  Taken taken;
  EXPECT_EQ(CU(cuMemAllocAsync)(&taken.address, kTaken, nullptr), CUDA_SUCCESS);
  taken.give = [=] {
    EXPECT_EQ(CU(cuMemFreeAsync)(taken.address, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamSynchronize)(nullptr), CUDA_SUCCESS);
  };
  return taken;
}

Taken mapped() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  Taken taken;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(CU(cuMemAddressReserve)(&taken.address, kTaken, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemCreate)(&handle, kTaken, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemMap)(taken.address, kTaken, 0, handle, 0), CUDA_SUCCESS);
  taken.give = [=] {
    EXPECT_EQ(CU(cuMemUnmap)(taken.address, kTaken), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemAddressFree)(taken.address, kTaken), CUDA_SUCCESS);
  };
  return taken;
}

Taken of_a_graph() {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec executable = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = kTaken;
  EXPECT_EQ(CU(cuGraphCreate)(&graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&executable, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  return {parameters.dptr, [=] {
            EXPECT_EQ(CU(cuMemFree_v2)(parameters.dptr), CUDA_SUCCESS);
            EXPECT_EQ(CU(cuGraphExecDestroy)(executable), CUDA_SUCCESS);
            EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
            EXPECT_EQ(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
          }};
}

TEST_F(DriverTest, InEveryKindOfDeviceMemoryOnlyWhatWasWrittenTakesMemoryOfTheHostUntilItIsFreed) {
  const std::uintmax_t before = on_host();
  for (const auto take_one : {plain, from_gaps, from_a_pool, mapped, of_a_graph}) {
    const Taken first = take_one(), second = take_one();
    EXPECT_EQ(CU(cuMemsetD8_v2)(first.address, 0, kTaken), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemcpyDtoD_v2)(second.address, first.address, kTaken), CUDA_SUCCESS);
    EXPECT_LT(on_host(), before + 2 * kMiB);
    EXPECT_EQ(CU(cuMemsetD8_v2)(first.address + 5 * kMiB, 7, 2 * kMiB), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemcpyDtoD_v2)(second.address, first.address, kTaken), CUDA_SUCCESS);
    EXPECT_GE(on_host(), before + 4 * kMiB);
    EXPECT_LT(on_host(), before + 10 * kMiB) << "a copy writes what was written, and no more";
    std::vector<unsigned char> expected(kTaken), found(kTaken);
    std::fill_n(expected.begin() + 5 * kMiB, 2 * kMiB, static_cast<unsigned char>(7));
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(found.data(), second.address, kTaken), CUDA_SUCCESS);
    EXPECT_TRUE(found == expected);
    first.give(), second.give();
    EXPECT_LT(on_host(), before + 2 * kMiB);
    const Taken again = take_one();
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(found.data(), again.address, kTaken), CUDA_SUCCESS);
    EXPECT_EQ(std::count(found.begin(), found.end(), 0), static_cast<std::ptrdiff_t>(kTaken)) << "the former contents";
    again.give();
  }
}

TEST_F(DriverTest, PlanesAreCopiedRowByRowBetweenPitches) {
  CUdeviceptr at = 0;
  std::size_t pitch = 0;
  ASSERT_EQ(CU(cuMemAllocPitch_v2)(&at, &pitch, 100, 8, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 512u);
  const auto source = counting(800);
  std::vector<unsigned char> target(800);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = source.data(), copy.srcPitch = 100;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = at, copy.dstPitch = pitch;
  copy.WidthInBytes = 100, copy.Height = 8;
  ASSERT_EQ(call<const CUDA_MEMCPY2D*>("cuMemcpy2D_v2", &copy), CUDA_SUCCESS);
  unsigned char byte = 0;
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&byte, at + 3 * pitch + 5, 1), CUDA_SUCCESS);
  EXPECT_EQ(byte, source[305]);
  drop(at);
}

TEST_F(DriverTest, ArraysKeepTheirShapeAndContents) {
  CUDA_ARRAY3D_DESCRIPTOR shape{64, 32, 4, CU_AD_FORMAT_FLOAT, 2, 0};
  CUarray array = nullptr;
  ASSERT_EQ(CU(cuArray3DCreate_v2)(&array, &shape), CUDA_SUCCESS);
  CUDA_ARRAY3D_DESCRIPTOR told{};
  ASSERT_EQ((call<CUDA_ARRAY3D_DESCRIPTOR*, CUarray>("cuArray3DGetDescriptor_v2", &told, array)), CUDA_SUCCESS);
  EXPECT_EQ(std::tie(told.Width, told.Height, told.Depth, told.Format, told.NumChannels, told.Flags),
            std::tie(shape.Width, shape.Height, shape.Depth, shape.Format, shape.NumChannels, shape.Flags));
  const auto source = counting(64 * 8 * 32 * 4);
  std::vector<unsigned char> target(source.size());
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = source.data(), copy.srcPitch = 512, copy.srcHeight = 32;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
  copy.WidthInBytes = 512, copy.Height = 32, copy.Depth = 4;
  ASSERT_EQ(call<const CUDA_MEMCPY3D*>("cuMemcpy3D_v2", &copy), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemcpyAtoH_v2", static_cast<void*>(target.data()), array, std::size_t{0}, target.size()),
            CUDA_SUCCESS);
  EXPECT_EQ(source, target);
  copy.dstXInBytes = 8;
  EXPECT_EQ(call<const CUDA_MEMCPY3D*>("cuMemcpy3D_v2", &copy), CUDA_ERROR_INVALID_VALUE) << "beyond the row";
  EXPECT_EQ(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuArrayDestroy)(array), CUDA_ERROR_INVALID_HANDLE);
  shape.NumChannels = 3;
  EXPECT_EQ(CU(cuArray3DCreate_v2)(&array, &shape), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, LevelsOfAMipmapAreArraysOfHalfTheSize) {
  const CUDA_ARRAY3D_DESCRIPTOR shape{256, 256, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
  CUmipmappedArray mipmap = nullptr;
  CUarray level = nullptr;
  ASSERT_EQ(CU(cuMipmappedArrayCreate)(&mipmap, &shape, 3), CUDA_SUCCESS);
  ASSERT_EQ((call<CUarray*, CUmipmappedArray, unsigned>("cuMipmappedArrayGetLevel", &level, mipmap, 2)), CUDA_SUCCESS);
  CUDA_ARRAY3D_DESCRIPTOR told{};
  ASSERT_EQ((call<CUDA_ARRAY3D_DESCRIPTOR*, CUarray>("cuArray3DGetDescriptor_v2", &told, level)), CUDA_SUCCESS);
  EXPECT_EQ(told.Width, 64u);
  EXPECT_EQ((call<CUarray*, CUmipmappedArray, unsigned>("cuMipmappedArrayGetLevel", &level, mipmap, 3)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMipmappedArrayDestroy)(mipmap), CUDA_SUCCESS);
}

CUarrayMapInfo part_of(CUarray array, CUmemOperationType operation, unsigned first_row, unsigned rows,
                       CUmemGenericAllocationHandle memory, std::size_t offset) {
  CUarrayMapInfo entry{};
  entry.resource.array = array;
  entry.subresource.sparseLevel.offsetY = first_row;
  entry.subresource.sparseLevel.extentWidth = 1024;
  entry.subresource.sparseLevel.extentHeight = rows;
  entry.subresource.sparseLevel.extentDepth = 1;
  entry.memOperationType = operation;
  entry.memHandle.memHandle = memory;
  entry.offset = offset;
  entry.deviceBitMask = 1;
  return entry;
}

TEST_F(DriverTest, ASparseArrayHasWhatIsMappedIntoItAndKeepsItAlive) {
  const std::size_t before = free_bytes();
  const CUDA_ARRAY3D_DESCRIPTOR shape{1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE};
  CUarray array = nullptr;
  ASSERT_EQ(CU(cuArray3DCreate_v2)(&array, &shape), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before) << "nothing is behind it yet";
  CUDA_ARRAY_SPARSE_PROPERTIES properties{};
  ASSERT_EQ(CU(cuArrayGetSparseProperties)(&properties, array), CUDA_SUCCESS);
  EXPECT_EQ(properties.tileExtent.width, 128u);
  EXPECT_EQ(properties.tileExtent.height, 128u);
  EXPECT_EQ(properties.miptailFirstLevel, 1u) << "it has no tail";
  CUmemAllocationProp device{};
  device.type = CU_MEM_ALLOCATION_TYPE_PINNED, device.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle one = 0, two = 0;
  ASSERT_EQ(CU(cuMemCreate)(&one, 4 * kMiB, &device, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemCreate)(&two, 2 * kMiB, &device, 0), CUDA_SUCCESS);
  const auto map = [](CUarrayMapInfo entry) { return CU(cuMemMapArrayAsync)(&entry, 1, nullptr); };
  EXPECT_EQ(map(part_of(array, CU_MEM_OPERATION_TYPE_MAP, 0, 1024, one, 0)), CUDA_SUCCESS);
  EXPECT_EQ(map(part_of(array, CU_MEM_OPERATION_TYPE_MAP, 64, 128, two, 0)), CUDA_ERROR_INVALID_VALUE) << "half tiles";
  EXPECT_EQ(map(part_of(array, CU_MEM_OPERATION_TYPE_MAP, 0, 1024, two, 0)), CUDA_ERROR_INVALID_VALUE) << "too little";
  EXPECT_EQ(map(part_of(array, CU_MEM_OPERATION_TYPE_MAP, 256, 512, two, 0)), CUDA_SUCCESS) << "in place of the first";
  ASSERT_EQ(CU(cuMemRelease)(one), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemRelease)(two), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 6 * kMiB) << "the array keeps both";
  EXPECT_EQ(map(part_of(array, CU_MEM_OPERATION_TYPE_UNMAP, 0, 256, 0, 0)), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 6 * kMiB) << "the first is still behind its last rows";
  EXPECT_EQ(map(part_of(array, CU_MEM_OPERATION_TYPE_UNMAP, 768, 256, 0, 0)), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 2 * kMiB);
  EXPECT_EQ(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(DriverTest, ADeferredArraySaysWhatItNeedsAndAPlainOneDoesNot) {
  CUDA_ARRAY3D_DESCRIPTOR shape{1024, 512, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING};
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  CUarray array = nullptr;
  ASSERT_EQ(CU(cuArray3DCreate_v2)(&array, &shape), CUDA_SUCCESS);
  ASSERT_EQ(
      (call<CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray, CUdevice>("cuArrayGetMemoryRequirements", &needs, array, 0)),
      CUDA_SUCCESS);
  EXPECT_EQ(needs.size, 2 * kMiB);
  EXPECT_EQ(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
  shape.Flags = 0;
  ASSERT_EQ(CU(cuArray3DCreate_v2)(&array, &shape), CUDA_SUCCESS);
  EXPECT_EQ(
      (call<CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray, CUdevice>("cuArrayGetMemoryRequirements", &needs, array, 0)),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
}

TEST_F(DriverTest, ThreadsRetainReleaseAndResetOnePrimaryContext) {
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < 8; ++index) {
    threads.emplace_back([index] {
      CUcontext context = nullptr;
      for (unsigned round = 0; round < 200; ++round) {
        ASSERT_EQ(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
        if ((round + index) % 16 == 0) {
          EXPECT_EQ(CU(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
        }
        EXPECT_EQ(CU(cuDevicePrimaryCtxRelease_v2)(0), CUDA_SUCCESS) << "a reset releases nothing";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CUcontext context = nullptr;
  ASSERT_EQ(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), at_start_) << "one context, however often it was made and ended";
  EXPECT_EQ(CU(cuDevicePrimaryCtxRelease_v2)(0), CUDA_SUCCESS);
}

TEST_F(DriverTest, APointerKnowsItsAllocation) {
  const CUdeviceptr large = take(5 * kMiB), small = take(700);
  CUdeviceptr start = 0;
  std::size_t size = 0;
  ASSERT_EQ(CU(cuMemGetAddressRange_v2)(&start, &size, large + 3 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(start, large);
  EXPECT_EQ(size, 5 * kMiB);
  ASSERT_EQ(CU(cuMemGetAddressRange_v2)(&start, &size, small + 699), CUDA_SUCCESS);
  EXPECT_EQ(start, small);
  unsigned int answers[2] = {7, 7};  // IS_MANAGED is written as 32 bits: the neighbour stays
  ASSERT_EQ((call<void*, CUpointer_attribute, CUdeviceptr>("cuPointerGetAttribute", answers,
                                                           CU_POINTER_ATTRIBUTE_IS_MANAGED, large)),
            CUDA_SUCCESS);
  EXPECT_EQ(answers[0], 0u);
  EXPECT_EQ(answers[1], 7u);
  CUdeviceptr managed = 0;
  ASSERT_EQ(CU(cuMemAllocManaged)(&managed, kMiB, 1), CUDA_SUCCESS);
  ASSERT_EQ((call<void*, CUpointer_attribute, CUdeviceptr>("cuPointerGetAttribute", answers,
                                                           CU_POINTER_ATTRIBUTE_IS_MANAGED, managed)),
            CUDA_SUCCESS);
  EXPECT_EQ(answers[0], 1u);
  EXPECT_EQ((call<void*, CUpointer_attribute, CUdeviceptr>("cuPointerGetAttribute", answers,
                                                           CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr{64})),
            CUDA_ERROR_INVALID_VALUE);
  drop(large), drop(small), drop(managed);
  EXPECT_EQ(CU(cuMemGetAddressRange_v2)(&start, &size, large), CUDA_ERROR_NOT_FOUND);
}

TEST_F(DriverTest, HostMemoryIsPinnedRegisteredAndGivenBack) {
  void* memory = nullptr;
  ASSERT_EQ(CU(cuMemHostAlloc)(&memory, 5000, 0), CUDA_SUCCESS);
  CUdeviceptr same = 0;
  ASSERT_EQ((call<CUdeviceptr*, void*, unsigned>("cuMemHostGetDevicePointer_v2", &same, memory, 0)), CUDA_SUCCESS);
  EXPECT_EQ(same, reinterpret_cast<CUdeviceptr>(memory));
  EXPECT_EQ(CU(cuMemFreeHost)(memory), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFreeHost)(memory), CUDA_ERROR_INVALID_VALUE);
  std::vector<char> own(8192);
  ASSERT_EQ((call<void*, std::size_t, unsigned>("cuMemHostRegister_v2", own.data(), own.size(), 0)), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<int>(call<void*, std::size_t, unsigned>("cuMemHostRegister_v2", own.data(), own.size(), 0)),
            712);
  EXPECT_EQ(call<void*>("cuMemHostUnregister", own.data()), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<int>(call<void*>("cuMemHostUnregister", own.data())), 713);
}

TEST_F(DriverTest, StreamsAndEventsKnowWhoTheyAre) {
  CUstream stream = nullptr;
  ASSERT_EQ((call<CUstream*, unsigned, int>("cuStreamCreateWithPriority", &stream, 1, -3)), CUDA_SUCCESS);
  int priority = 0;
  ASSERT_EQ((call<CUstream, int*>("cuStreamGetPriority", stream, &priority)), CUDA_SUCCESS);
  EXPECT_EQ(priority, -3);
  CUdevice device = 9;
  ASSERT_EQ(CU(cuStreamGetDevice)(stream, &device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  CUevent first = nullptr, second = nullptr;
  ASSERT_EQ(CU(cuEventCreate)(&first, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuEventCreate)(&second, 0), CUDA_SUCCESS);
  float time = -1;
  EXPECT_EQ((call<float*, CUevent, CUevent>("cuEventElapsedTime", &time, first, second)), CUDA_ERROR_INVALID_HANDLE)
      << "not recorded yet";
  ASSERT_EQ(CU(cuEventRecord)(first, stream), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuEventRecord)(second, stream), CUDA_SUCCESS);
  ASSERT_EQ((call<float*, CUevent, CUevent>("cuEventElapsedTime", &time, first, second)), CUDA_SUCCESS);
  EXPECT_GE(time, 0);
  EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuEventDestroy_v2)(first), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuEventDestroy_v2)(second), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamDestroy_v2)(stream), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(DriverTest, WorkThatTakesTimeKeepsItsStreamAndWhoWaitsForIt) {
  CUmodule module = nullptr;
  CUfunction spin = nullptr;
  CUstream own = nullptr, other = nullptr, blocking = nullptr;
  CUevent before = nullptr, behind = nullptr;
  ASSERT_EQ(CU(cuModuleLoadData)(&module, "any image"), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuModuleGetFunction)(&spin, module, "spin_kernel"), CUDA_SUCCESS);
  constexpr unsigned kNonBlocking = 1;
  for (auto [stream, flags] : {std::pair{&own, kNonBlocking}, {&other, kNonBlocking}, {&blocking, 0U}})
    ASSERT_EQ((call<CUstream*, unsigned>("cuStreamCreate", stream, flags)), CUDA_SUCCESS);
  for (CUevent* event : {&before, &behind}) ASSERT_EQ(CU(cuEventCreate)(event, 0), CUDA_SUCCESS);
  const auto occupy = [&](CUstream stream, std::int64_t seconds) {
    std::int64_t cycles = seconds * 1'590'000'000;  // of a T4
    void* arguments[] = {&cycles};
    ASSERT_EQ(CU(cuLaunchKernel)(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), CUDA_SUCCESS);
  };
  const CUdeviceptr block = take(kMiB);
  ASSERT_EQ(CU(cuEventRecord)(before, own), CUDA_SUCCESS);
  occupy(own, 1);
  ASSERT_EQ(CU(cuEventRecord)(behind, own), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuEventQuery)(before), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuEventQuery)(behind), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(CU(cuStreamQuery)(own), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(CU(cuStreamQuery)(other), CUDA_SUCCESS) << "it does not wait for the first one";
  EXPECT_EQ(CU(cuStreamQuery)(nullptr), CUDA_SUCCESS) << "nor does the default one: that one is non-blocking";
  float time = 0;
  EXPECT_EQ((call<float*, CUevent, CUevent>("cuEventElapsedTime", &time, before, behind)), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(CU(cuStreamWaitEvent)(other, behind, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamQuery)(other), CUDA_ERROR_NOT_READY) << "now it does";
  drop(block);  // waits for everything
  EXPECT_EQ(CU(cuStreamQuery)(other), CUDA_SUCCESS);
  ASSERT_EQ((call<float*, CUevent, CUevent>("cuEventElapsedTime", &time, before, behind)), CUDA_SUCCESS);
  EXPECT_NEAR(time, 1000, 1);

  occupy(blocking, 1);
  EXPECT_EQ(CU(cuStreamQuery)(nullptr), CUDA_ERROR_NOT_READY) << "the legacy default stream waits for it";
  EXPECT_EQ(CU(cuStreamSynchronize)(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamQuery)(blocking), CUDA_SUCCESS);
  occupy(nullptr, 1);
  EXPECT_EQ(CU(cuStreamQuery)(blocking), CUDA_ERROR_NOT_READY) << "and it for the default stream";
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamQuery)(blocking), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuModuleUnload)(module), CUDA_SUCCESS);
}

TEST_F(DriverTest, KernelsAreFoundAndDoNothing) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(CU(cuModuleLoadData)(&module, "any image"), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuModuleGetFunction)(&function, module, "any"), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  const char* name = nullptr;
  ASSERT_EQ((call<const char**, CUfunction>("cuFuncGetName", &name, function)), CUDA_SUCCESS);
  EXPECT_STREQ(name, "any");
  EXPECT_EQ(CU(cuModuleUnload)(module), CUDA_SUCCESS);
}

TEST_F(DriverTest, VariablesOfAModuleHavePlacesAndTheirValues) {
  // A code section of 300 bytes, shared memory, which has no place, and one variable with a value.
  struct {
    Elf64_Ehdr header{};
    Elf64_Shdr sections[6]{};
    Elf64_Sym symbol{};
    char names[64] = "\0.text\0.nv.shared\0.nv.global.init\0answer";
    unsigned values[4] = {0, 42, 0, 0};
    char code[300] = {};
  } image;
  const auto at = [&](const auto& part) {
    return static_cast<std::uint64_t>(reinterpret_cast<const char*>(&part) - reinterpret_cast<const char*>(&image));
  };
  std::memcpy(image.header.e_ident, ELFMAG, SELFMAG);
  image.header.e_ident[EI_CLASS] = ELFCLASS64;
  image.header.e_ident[EI_DATA] = ELFDATA2LSB;
  image.header.e_shentsize = sizeof(Elf64_Shdr);
  image.header.e_shoff = at(image.sections);
  image.header.e_shnum = 6;
  image.header.e_shstrndx = 5;
  image.sections[1] = {1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, at(image.code), 300, 0, 0, 128, 0};
  image.sections[2] = {7, SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0, 0, 64 * kMiB, 0, 0, 16, 0};
  image.sections[3] = {18, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 0, at(image.values), 16, 0, 0, 256, 0};
  image.sections[4] = {0, SHT_SYMTAB, 0, 0, at(image.symbol), sizeof image.symbol, 5, 0, 8, sizeof image.symbol};
  image.sections[5] = {0, SHT_STRTAB, 0, 0, at(image.names), sizeof image.names, 0, 0, 1, 0};
  image.symbol = {34, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, 3, 4, 4};

  CUmodule module = nullptr;
  const std::size_t before = free_bytes();
  ASSERT_EQ(CU(cuModuleLoadData)(&module, &image), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 2 * kMiB);
  auto* find = driver_function<CUresult(CUdeviceptr*, std::size_t*, CUmodule, const char*)>("cuModuleGetGlobal_v2");
  CUdeviceptr address = 0;
  std::size_t size = 0;
  ASSERT_EQ(find(&address, &size, module, "answer"), CUDA_SUCCESS);
  EXPECT_EQ(size, 4U);
  EXPECT_EQ(address % 256, 4U) << "where its section's alignment puts it";
  unsigned value = 0;
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&value, address, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 42U);
  EXPECT_EQ(find(&address, &size, module, "question"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(CU(cuModuleUnload)(module), CUDA_SUCCESS);
}

TEST_F(DriverTest, EveryResultHasItsNameAndAnUnknownOneHasNone) {
  const char* text = nullptr;
  ASSERT_EQ(CU(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  ASSERT_EQ(CU(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(CU(cuGetErrorName)(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(DriverTest, WhatItCannotDoItSays) {
  EXPECT_EQ((call<void*, void*>("cuMulticastCreate", nullptr, nullptr)), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ((call<const void**, const void*>("cuGetExportTable", nullptr, nullptr)), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(DriverTest, WhatAsksForPrivateFunctionsIsNamedOnceOnStandardError) {
  const auto ask = [](const char* table) {
    const void* out = nullptr;
    return call<const void**, const void*>("cuGetExportTable", &out, table);
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ask("ration-contexts1"), CUDA_SUCCESS);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ask("of another maker"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(ask("of another maker"), CUDA_ERROR_NOT_SUPPORTED);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("sim_driver_test asks the driver for private functions"), std::string::npos) << said;
  EXPECT_NE(said.find("eval \"$(ration sim env)\""), std::string::npos) << said;
  EXPECT_NE(said.find("ration help simulated"), std::string::npos) << said;
}

TEST_F(DriverTest, SmallBlocksShareGranulesAndLargeOnesTakeWholeOnes) {
  const std::size_t before = free_bytes();
  std::vector<CUdeviceptr> small;
  for (int i = 0; i < 512; ++i) small.push_back(take(4096));
  EXPECT_EQ(before - free_bytes(), 2 * kMiB) << "512 blocks of 4 KiB fill one granule";
  const CUdeviceptr large = take(2 * kMiB + 1);
  EXPECT_EQ(before - free_bytes(), 6 * kMiB);
  EXPECT_EQ(large % (2 * kMiB), 0u) << "granules are aligned";
  for (const CUdeviceptr address : small) drop(address);
  drop(large);
  EXPECT_EQ(CU(cuMemFree_v2)(large + 512), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, AFreedBlockCannotBeFreedAgain) {
  const CUdeviceptr kept = take(4096), freed = take(4096), large = take(3 * kMiB);
  drop(freed), drop(large);
  EXPECT_EQ(CU(cuMemFree_v2)(freed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemFree_v2)(large), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemFree_v2)(kept + 512), CUDA_ERROR_INVALID_VALUE) << "no block begins there";
  drop(kept);
}

TEST_F(DriverTest, AContextTakesItsCostAndGivesItBackWithAllThatLivedInIt) {
  const std::size_t before = free_bytes();
  CUcontext context = nullptr;
  ASSERT_EQ(CU(cuCtxCreate_v2)(&context, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 64 * kMiB);
  (void)take(10 * kMiB);
  (void)take(100);
  ASSERT_EQ(CU(cuCtxDestroy_v2)(context), CUDA_SUCCESS);
  CUcontext primary = nullptr;
  ASSERT_EQ(CU(cuDevicePrimaryCtxRetain)(&primary, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuCtxSetCurrent)(primary), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(DriverTest, AHandleThatIsNoContextIsRefused) {
  auto* const none = reinterpret_cast<CUcontext>(0x1000);
  EXPECT_EQ(CU(cuCtxSetCurrent)(none), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(CU(cuCtxPushCurrent_v2)(none), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(CU(cuCtxDestroy_v2)(none), CUDA_ERROR_INVALID_CONTEXT);
  (void)free_bytes();  // the current one still is
}

TEST_F(DriverTest, TheHeapOfKernelsTakesTheLargestThatWasSetInWholeGranules) {
  CUcontext context = nullptr;
  ASSERT_EQ(CU(cuCtxCreate_v2)(&context, 0, 0), CUDA_SUCCESS);
  const std::size_t before = free_bytes();
  const auto set = [](std::size_t bytes) { return CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, bytes); };
  for (std::size_t steps = 1; steps <= 32; ++steps) {
    ASSERT_EQ(set(8 * kMiB + steps * 65536), CUDA_SUCCESS);
    EXPECT_EQ(before - free_bytes(), 2 * kMiB) << steps;
  }
  ASSERT_EQ(set(10 * kMiB + 1), CUDA_SUCCESS);
  ASSERT_EQ(set(kMiB), CUDA_SUCCESS);
  std::size_t told = 0;
  ASSERT_EQ((call<std::size_t*, int>("cuCtxGetLimit", &told, CU_LIMIT_MALLOC_HEAP_SIZE)), CUDA_SUCCESS);
  EXPECT_EQ(told, kMiB);
  ASSERT_EQ(set(8 * kMiB + 1), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 4 * kMiB) << "taken once, and kept";
  EXPECT_EQ(set(std::size_t{1} << 60), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(before - free_bytes(), 4 * kMiB);
  ASSERT_EQ(CU(cuCtxDestroy_v2)(context), CUDA_SUCCESS);
  CUcontext primary = nullptr;
  ASSERT_EQ(CU(cuDevicePrimaryCtxRetain)(&primary, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuCtxSetCurrent)(primary), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ration::testing
