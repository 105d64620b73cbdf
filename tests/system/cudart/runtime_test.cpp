// The simulated CUDA runtime as a program sees it that was linked with NVIDIA's: what nvcc puts into it (registration,
// launches), memory, errors, streams and graphs, and the stand-ins' handles. Built for both major versions.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime_abi.hpp"

namespace ration::cudart {
namespace {

constexpr std::size_t kMiB = 1 << 20;

void* library(const std::string& name) {
  static const std::string folder = std::string(SIM_FOLDER) + "/cuda" + std::to_string(RATION_CUDART) + "/";
  void* opened = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
  EXPECT_NE(opened, nullptr) << ::dlerror();
  return opened;
}

template <typename... Arguments>
Error call(const char* name, Arguments... arguments) {
  static void* runtime = library("libcudart.so." + std::to_string(RATION_CUDART));
  auto* function = reinterpret_cast<Error (*)(Arguments...)>(::dlsym(runtime, name));
  EXPECT_NE(function, nullptr) << name;
  return function(arguments...);
}
const char* text(Error error) {
  static void* runtime = library("libcudart.so." + std::to_string(RATION_CUDART));
  return reinterpret_cast<const char* (*)(Error)>(::dlsym(runtime, "cudaGetErrorString"))(error);
}

std::size_t free_bytes() {
  std::size_t available = 0, total = 0;
  EXPECT_EQ(call("cudaMemGetInfo", &available, &total), cudaSuccess);
  return available;
}

struct Runtime : ::testing::Test {
  static void SetUpTestSuite() {
    static const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("cudart" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    ::setenv("RATION_SIM", "T4:2GiB*2", 1);
    ::setenv("RATION_SIM_DIR", folder.c_str(), 1);
  }
  void SetUp() override { ASSERT_EQ(call("cudaSetDevice", 0), cudaSuccess); }
  static void* take(std::size_t size) {
    void* address = nullptr;
    EXPECT_EQ(call("cudaMalloc", &address, size), cudaSuccess);
    return address;
  }
};

TEST_F(Runtime, DevicesHaveTheirProperties) {
  int count = 0, version = 0;
  EXPECT_EQ(call("cudaGetDeviceCount", &count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(call("cudaRuntimeGetVersion", &version), cudaSuccess);
  EXPECT_EQ(version / 1000, RATION_CUDART);
  cudaDeviceProp properties;
  EXPECT_EQ(call(RATION_CUDART == 12 ? "cudaGetDeviceProperties_v2" : "cudaGetDeviceProperties", &properties, 1),
            cudaSuccess);
  EXPECT_STREQ(properties.name, "Tesla T4");
  EXPECT_EQ(properties.totalGlobalMem, 2048 * kMiB);
  EXPECT_EQ(properties.major * 10 + properties.minor, 75);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_GT(properties.multiProcessorCount, 0);
  EXPECT_EQ(call("cudaSetDevice", 2), cudaErrorInvalidDevice);
  EXPECT_EQ(call("cudaGetLastError"), cudaErrorInvalidDevice);
  EXPECT_EQ(call("cudaGetLastError"), cudaSuccess) << "it is told once";
}

TEST_F(Runtime, ContentsAreTrue) {
  std::vector<unsigned char> source(3 * kMiB + 7), target(source.size());
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(1));
  void *one = take(source.size()), *two = take(source.size());
  ASSERT_EQ(
      call("cudaMemcpy", one, static_cast<const void*>(source.data()), source.size(), int{cudaMemcpyHostToDevice}),
      cudaSuccess);
  ASSERT_EQ(
      call("cudaMemcpyAsync", two, static_cast<const void*>(one), source.size(), int{cudaMemcpyDefault}, Handle{}),
      cudaSuccess);
  ASSERT_EQ(call("cudaMemset", one, 5, std::size_t{16}), cudaSuccess);
  ASSERT_EQ(call("cudaMemcpy", static_cast<void*>(target.data()), static_cast<const void*>(two), source.size(),
                 int{cudaMemcpyDeviceToHost}),
            cudaSuccess);
  EXPECT_EQ(source, target);
  ASSERT_EQ(call("cudaMemcpy", static_cast<void*>(target.data()), static_cast<const void*>(one), std::size_t{17},
                 int{cudaMemcpyDeviceToHost}),
            cudaSuccess);
  EXPECT_EQ(target[15], 5);
  EXPECT_EQ(target[16], source[16]);
  EXPECT_EQ(call("cudaMemcpy", one, static_cast<const void*>(two), std::size_t{4}, 9), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(call("cudaFree", one), cudaSuccess);
  EXPECT_EQ(call("cudaFree", two), cudaSuccess);
}

TEST_F(Runtime, MemoryIsTheDriversAndComesBack) {
  const std::size_t before = free_bytes();
  void* block = take(100 * kMiB);
  EXPECT_EQ(before - free_bytes(), 100 * kMiB);
  void* refused = block;
  EXPECT_EQ(call("cudaMalloc", &refused, std::size_t{4} << 30), cudaErrorMemoryAllocation);
  EXPECT_EQ(refused, nullptr);
  EXPECT_STREQ(text(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_EQ(call("cudaPeekAtLastError"), cudaErrorMemoryAllocation);
  (void)call("cudaGetLastError");
  cudaPointerAttributes attributes;
  EXPECT_EQ(call("cudaPointerGetAttributes", &attributes, static_cast<const void*>(block)), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  int own = 0;
  EXPECT_EQ(call("cudaPointerGetAttributes", &attributes, static_cast<const void*>(&own)), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(call("cudaFree", block), cudaSuccess);
  EXPECT_EQ(call("cudaFree", &own), cudaErrorInvalidValue);
  EXPECT_EQ(call("cudaFree", nullptr), cudaSuccess);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Runtime, EachThreadHasItsDevice) {
  ASSERT_EQ(call("cudaSetDevice", 1), cudaSuccess);
  int seen = -1;
  std::thread([&] { EXPECT_EQ(call("cudaGetDevice", &seen), cudaSuccess); }).join();
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(call("cudaGetDevice", &seen), cudaSuccess);
  EXPECT_EQ(seen, 1);
  void* block = take(kMiB);
  cudaPointerAttributes attributes;
  EXPECT_EQ(call("cudaPointerGetAttributes", &attributes, static_cast<const void*>(block)), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(call("cudaFree", block), cudaSuccess);
}

char stub;             // where a compiler puts the host's side of a kernel
int variable_on_host;  // and of a variable

TEST_F(Runtime, KernelsAreRegisteredLaunchedAndCountedInGraphs) {
  static int code = 0;
  auto** image = reinterpret_cast<void** (*)(void*)>(::dlsym(RTLD_DEFAULT, "__cudaRegisterFatBinary"))(&code);
  reinterpret_cast<void (*)(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*)>(
      ::dlsym(RTLD_DEFAULT, "__cudaRegisterFunction"))(image, &stub, &stub, "kernel", -1, nullptr, nullptr, nullptr,
                                                       nullptr, nullptr);
  reinterpret_cast<void (*)(void**, char*, char*, const char*, int, std::size_t, int, int)>(
      ::dlsym(RTLD_DEFAULT, "__cudaRegisterVar"))(image, reinterpret_cast<char*>(&variable_on_host), nullptr,
                                                  "variable", 0, sizeof(int), 0, 0);
  const dim3 one{1, 1, 1}, many{256, 1, 1}, none{0, 1, 1}, too_many{2048, 1, 1};
  const auto launch = [&](const void* kernel, dim3 grid, dim3 block) {
    return call("cudaLaunchKernel", kernel, grid, block, static_cast<void**>(nullptr), std::size_t{0}, Handle{});
  };
  EXPECT_EQ(launch(&stub, one, many), cudaSuccess);
  EXPECT_EQ(launch(&stub, none, many), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(&stub, one, too_many), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(&code, one, one), cudaErrorInvalidDeviceFunction);
  cudaFuncAttributes attributes;
  EXPECT_EQ(call("cudaFuncGetAttributes", &attributes, static_cast<const void*>(&stub)), cudaSuccess);
  EXPECT_EQ(attributes.binaryVersion, 75);
  int blocks = 0;
  EXPECT_EQ(call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, static_cast<const void*>(&stub), 256,
                 std::size_t{0}),
            cudaSuccess);
  EXPECT_GT(blocks, 0);
  const int sent = 42;
  int back = 0;
  EXPECT_EQ(call("cudaMemcpyToSymbol", static_cast<const void*>(&variable_on_host), static_cast<const void*>(&sent),
                 sizeof sent, std::size_t{0}, 1),
            cudaSuccess);
  EXPECT_EQ(call("cudaMemcpyFromSymbol", static_cast<void*>(&back), static_cast<const void*>(&variable_on_host),
                 sizeof back, std::size_t{0}, 2),
            cudaSuccess);
  EXPECT_EQ(back, 42);
  EXPECT_EQ(call("cudaMemcpyToSymbol", static_cast<const void*>(&variable_on_host), static_cast<const void*>(&sent),
                 sizeof sent, std::size_t{1}, 1),
            cudaErrorInvalidValue);

  Handle stream = nullptr, graph = nullptr, executable = nullptr;
  ASSERT_EQ(call("cudaStreamCreate", &stream), cudaSuccess);
  ASSERT_EQ(call("cudaStreamBeginCapture", stream, 0), cudaSuccess);
  EXPECT_EQ(call("cudaLaunchKernel", static_cast<const void*>(&stub), one, many, static_cast<void**>(nullptr),
                 std::size_t{0}, stream),
            cudaSuccess);
  ASSERT_EQ(call("cudaStreamEndCapture", stream, &graph), cudaSuccess);
  std::size_t nodes = 0;
  EXPECT_EQ(call("cudaGraphGetNodes", graph, static_cast<Handle*>(nullptr), &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 1U);
  EXPECT_EQ(call("cudaGraphInstantiate", &executable, graph, 0ULL), cudaSuccess);
  EXPECT_EQ(call("cudaGraphLaunch", executable, stream), cudaSuccess);
  EXPECT_EQ(call("cudaStreamSynchronize", stream), cudaSuccess);
  EXPECT_EQ(call("cudaStreamDestroy", stream), cudaSuccess);
  reinterpret_cast<void (*)(void**)>(::dlsym(RTLD_DEFAULT, "__cudaUnregisterFatBinary"))(image);
  EXPECT_EQ(launch(&stub, one, one), cudaErrorInvalidDeviceFunction);
}

TEST_F(Runtime, AnArrayHasTheChannelsThatItWasMadeWith) {
  constexpr struct {
    int bits, kind;  // 0 signed, 1 unsigned, 2 float
  } kFormats[] = {{8, 0}, {16, 0}, {32, 0}, {8, 1}, {16, 1}, {32, 1}, {16, 2}, {32, 2}};
  for (const auto& [bits, kind] : kFormats) {
    for (const int second : {0, bits}) {
      SCOPED_TRACE(testing::Message() << bits << " bits of kind " << kind);
      const cudaChannelFormatDesc channels{bits, second, 0, 0, kind};
      cuda::CUarray array = nullptr;
      ASSERT_EQ(call("cudaMallocArray", &array, &channels, std::size_t{64}, std::size_t{4}, 0U), cudaSuccess);
      cudaChannelFormatDesc told{};
      EXPECT_EQ(call("cudaArrayGetInfo", &told, static_cast<cudaExtent*>(nullptr), static_cast<unsigned int*>(nullptr),
                     array),
                cudaSuccess);
      EXPECT_TRUE(told.x == bits && told.y == second && told.z == 0 && told.f == kind)
          << told.x << " " << told.y << " " << told.f;
      EXPECT_EQ(call("cudaFreeArray", array), cudaSuccess);
    }
  }
  const cudaChannelFormatDesc none{7, 0, 0, 0, 1};
  cuda::CUarray array = nullptr;
  EXPECT_NE(call("cudaMallocArray", &array, &none, std::size_t{64}, std::size_t{4}, 0U), cudaSuccess);
}

TEST_F(Runtime, ArraysAndPlanesKeepTheirContents) {
  const auto describe = reinterpret_cast<cudaChannelFormatDesc (*)(int, int, int, int, int)>(
      ::dlsym(RTLD_DEFAULT, "cudaCreateChannelDesc"));
  const cudaChannelFormatDesc channels = describe(32, 0, 0, 0, 2);
  EXPECT_EQ(channels.x * 10 + channels.f, 322);
  cuda::CUarray array = nullptr;
  ASSERT_EQ(call("cudaMallocArray", &array, &channels, std::size_t{64}, std::size_t{4}, 0U), cudaSuccess);
  cudaChannelFormatDesc told{};
  cudaExtent extent{};
  unsigned int flags = 9;
  ASSERT_EQ(call("cudaArrayGetInfo", &told, &extent, &flags, array), cudaSuccess);
  EXPECT_EQ(told.x * 10 + told.f, 322);
  EXPECT_EQ(extent.width * 10 + extent.height, 644U);
  std::vector<float> source(64 * 4), target(source.size());
  std::iota(source.begin(), source.end(), 0.5F);
  const std::size_t pitch = 64 * sizeof(float);
  ASSERT_EQ(call("cudaMemcpy2DToArray", array, std::size_t{0}, std::size_t{0}, static_cast<const void*>(source.data()),
                 pitch, pitch, std::size_t{4}, 1),
            cudaSuccess);
  ASSERT_EQ(call("cudaMemcpy2DFromArray", static_cast<void*>(target.data()), pitch, array, std::size_t{0},
                 std::size_t{0}, pitch, std::size_t{4}, 2),
            cudaSuccess);
  EXPECT_EQ(source, target);
  EXPECT_EQ(call("cudaFreeArray", array), cudaSuccess);

  cudaPitchedPtr volume{};
  ASSERT_EQ(call("cudaMalloc3D", &volume, cudaExtent{100, 3, 2}), cudaSuccess);
  volume.ysize = 3;
  ASSERT_EQ(call("cudaMemset3D", volume, 7, cudaExtent{100, 3, 2}), cudaSuccess);
  unsigned char last = 0;
  ASSERT_EQ(call("cudaMemcpy", static_cast<void*>(&last),
                 static_cast<const void*>(static_cast<char*>(volume.ptr) + 5 * volume.pitch + 99), std::size_t{1}, 2),
            cudaSuccess);
  EXPECT_EQ(last, 7);
  EXPECT_EQ(call("cudaFree", volume.ptr), cudaSuccess);
}

TEST_F(Runtime, StreamOrderedMemoryAndPools) {
  void *block = nullptr, *pool = nullptr;
  ASSERT_EQ(call("cudaDeviceGetDefaultMemPool", &pool, 0), cudaSuccess);
  ASSERT_EQ(call("cudaMallocAsync", &block, 5 * kMiB, Handle{}), cudaSuccess);
  std::uint64_t used = 0;
  EXPECT_EQ(
      call("cudaMemPoolGetAttribute", pool, int{cuda::CU_MEMPOOL_ATTR_USED_MEM_CURRENT}, static_cast<void*>(&used)),
      cudaSuccess);
  EXPECT_GE(used, 5 * kMiB);
  EXPECT_EQ(call("cudaFreeAsync", block, Handle{}), cudaSuccess);
}

TEST_F(Runtime, WhatIsNotSimulatedIsNamed) {
  EXPECT_EQ(call("cudaGetTextureObjectResourceDesc", nullptr, 0ULL), cudaErrorNotSupported);
  const std::string told = text(cudaErrorNotSupported);
  EXPECT_NE(told.find("cudaGetTextureObjectResourceDesc is not simulated by ration's libcudart.so." +
                      std::to_string(RATION_CUDART)),
            std::string::npos)
      << told;
  // A function of the driver that a call of the runtime comes to.
  Handle stream = nullptr;
  ASSERT_EQ(call("cudaStreamCreate", &stream), cudaSuccess);
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  const char* of_driver = nullptr;
  EXPECT_EQ(reinterpret_cast<int (*)()>(::dlsym(driver, "cuTexObjectCreate"))(), 801);
  reinterpret_cast<int (*)(int, const char**)>(::dlsym(driver, "cuGetErrorString"))(801, &of_driver);
  EXPECT_NE(std::string(of_driver).find("cuTexObjectCreate is not simulated"), std::string::npos) << of_driver;
}

TEST_F(Runtime, TheChildOfAForkIsRefused) {
  const pid_t child = ::fork();
  if (child == 0) {
    void* address = nullptr;
    ::_exit(call("cudaMalloc", &address, kMiB));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3) << "cudaErrorInitializationError";
}

TEST_F(Runtime, TheStandInsTakeTheirWorkspaceAndGiveItBack) {
  void* blas = library("libcublas.so." + std::to_string(RATION_CUDART));
  const std::size_t before = free_bytes();
  Handle handle = nullptr;
  ASSERT_EQ(reinterpret_cast<int (*)(Handle*)>(::dlsym(blas, "cublasCreate_v2"))(&handle), 0);
  EXPECT_EQ(before - free_bytes(), 4 * kMiB);
  ASSERT_EQ(reinterpret_cast<int (*)(Handle)>(::dlsym(blas, "cublasDestroy_v2"))(handle), 0);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(reinterpret_cast<int (*)()>(::dlsym(blas, "cublasGetMatrix"))(), 15);
  EXPECT_NE(std::string(reinterpret_cast<const char* (*)(int)>(::dlsym(blas, "cublasGetStatusString"))(15))
                .find("cublasGetMatrix is not simulated"),
            std::string::npos);
  void* dnn = library("libcudnn.so.9");
  EXPECT_EQ(reinterpret_cast<int (*)()>(::dlsym(dnn, "cudnnGetReductionWorkspaceSize"))(), 3000)
      << "no size that nobody wrote";
}

TEST_F(Runtime, BroadcastsBetweenCardsAreTrue) {
  void* nccl = library("libnccl.so.2");
  Handle ranks[2] = {};
  ASSERT_EQ(reinterpret_cast<int (*)(Handle*, int, const int*)>(::dlsym(nccl, "ncclCommInitAll"))(ranks, 2, nullptr),
            0);
  const auto broadcast = reinterpret_cast<int (*)(const void*, void*, std::size_t, int, int, Handle, Handle)>(
      ::dlsym(nccl, "ncclBroadcast"));
  const auto start = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupStart")),
             end = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupEnd"));
  void* here = take(kMiB);
  ASSERT_EQ(call("cudaMemset", here, 9, kMiB), cudaSuccess);
  ASSERT_EQ(call("cudaSetDevice", 1), cudaSuccess);
  void* there = take(kMiB);
  for (const bool root_first : {true, false}) {
    ASSERT_EQ(call("cudaMemset", there, 0, kMiB), cudaSuccess);
    start();
    if (root_first) broadcast(here, here, kMiB, 1, 0, ranks[0], nullptr);
    broadcast(there, there, kMiB, 1, 0, ranks[1], nullptr);
    if (!root_first) broadcast(here, here, kMiB, 1, 0, ranks[0], nullptr);
    end();
    unsigned char last = 0;
    ASSERT_EQ(call("cudaMemcpy", static_cast<void*>(&last),
                   static_cast<const void*>(static_cast<char*>(there) + kMiB - 1), std::size_t{1}, 2),
              cudaSuccess);
    EXPECT_EQ(last, 9);
  }
}

TEST_F(Runtime, WhatOnlyMovesBetweenCardsIsTrue) {
  void* nccl = library("libnccl.so.2");
  Handle ranks[2] = {};
  ASSERT_EQ(reinterpret_cast<int (*)(Handle*, int, const int*)>(::dlsym(nccl, "ncclCommInitAll"))(ranks, 2, nullptr),
            0);
  const auto start = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupStart")),
             end = reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclGroupEnd"));
  constexpr std::size_t kBlock = 16;
  char* from[2] = {};
  char* to[2] = {};
  const auto fill = [&] {  // rank r has 10 r in its first block and 10 r + 1 in its second
    for (int rank : {0, 1}) {
      ASSERT_EQ(call("cudaSetDevice", rank), cudaSuccess);
      if (from[rank] == nullptr) {
        from[rank] = static_cast<char*>(take(2 * kBlock));
        to[rank] = static_cast<char*>(take(2 * kBlock));
      }
      for (int block : {0, 1})
        ASSERT_EQ(call("cudaMemset", static_cast<void*>(from[rank] + block * kBlock), 10 * rank + block, kBlock),
                  cudaSuccess);
      ASSERT_EQ(call("cudaMemset", static_cast<void*>(to[rank]), 99, 2 * kBlock), cudaSuccess);
    }
  };
  const auto got = [&](int rank, int block) {
    unsigned char last = 0;
    EXPECT_EQ(call("cudaMemcpy", static_cast<void*>(&last),
                   static_cast<const void*>(to[rank] + block * kBlock + kBlock - 1), std::size_t{1}, 2),
              cudaSuccess);
    return static_cast<int>(last);
  };
  const auto each = [&](auto&& work) {
    fill();
    start();
    for (int rank : {1, 0}) ASSERT_EQ(work(rank), 0);
    end();
  };
  using Blocks = std::vector<int>;
  const auto all = [&] { return Blocks{got(0, 0), got(0, 1), got(1, 0), got(1, 1)}; };
  using Rootless = int (*)(const void*, void*, std::size_t, int, Handle, Handle);
  using Rooted = int (*)(const void*, void*, std::size_t, int, int, Handle, Handle);
  using Send = int (*)(const void*, std::size_t, int, int, Handle, Handle);
  using Receive = int (*)(void*, std::size_t, int, int, Handle, Handle);
  const auto rootless = [&](const char* name) {
    each([&](int r) {
      return reinterpret_cast<Rootless>(::dlsym(nccl, name))(from[r], to[r], kBlock, 1, ranks[r], nullptr);
    });
  };
  const auto rooted = [&](const char* name) {
    each([&](int r) {
      return reinterpret_cast<Rooted>(::dlsym(nccl, name))(from[r], to[r], kBlock, 1, 1, ranks[r], nullptr);
    });
  };
  rootless("ncclAllGather");
  EXPECT_EQ(all(), (Blocks{0, 10, 0, 10}));
  rootless("ncclAlltoAll");
  EXPECT_EQ(all(), (Blocks{0, 10, 1, 11}));
  rooted("ncclGather");
  EXPECT_EQ(all(), (Blocks{99, 99, 0, 10}));
  rooted("ncclScatter");
  EXPECT_EQ(all(), (Blocks{10, 99, 11, 99}));
  each([&](int r) {
    const int sent = reinterpret_cast<Send>(::dlsym(nccl, "ncclSend"))(from[r], kBlock, 1, 1 - r, ranks[r], nullptr);
    return sent != 0 ? sent
                     : reinterpret_cast<Receive>(::dlsym(nccl, "ncclRecv"))(to[r], kBlock, 1, 1 - r, ranks[r], nullptr);
  });
  EXPECT_EQ(all(), (Blocks{10, 99, 0, 99}));
  EXPECT_EQ(reinterpret_cast<Send>(::dlsym(nccl, "ncclSend"))(from[0], kBlock, 1, 2, ranks[0], nullptr), 4);
  EXPECT_EQ(reinterpret_cast<int (*)()>(::dlsym(nccl, "ncclCommShrink"))(), 5);
  const std::string text = reinterpret_cast<const char* (*)(int)>(::dlsym(nccl, "ncclGetErrorString"))(5);
  EXPECT_EQ(text, "ncclCommShrink is not simulated by ration (see: ration help simulated)");
  EXPECT_EQ(text, reinterpret_cast<const char* (*)(Handle)>(::dlsym(nccl, "ncclGetLastError"))(nullptr));
}

}  // namespace
}  // namespace ration::cudart
