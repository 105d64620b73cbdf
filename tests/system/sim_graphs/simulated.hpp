// A simulated GPU of its own for a test program: a T4 with 1 GiB, of which one context takes 64 MiB.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "driver/cuda_graph_abi.hpp"

namespace ration::testing {

using namespace cuda;

inline constexpr std::size_t kMiB = 1 << 20;

/// The node's folder: made before the first call, removed when the program ends. Its path reaches child processes.
class NodeFolder {
 public:
  NodeFolder() {
    char name[] = "/tmp/ration-sim-test-XXXXXX";
    path_ = ::mkdtemp(name);
    ::setenv("RATION_SIM_DIR", path_.c_str(), 1);
    ::setenv("RATION_SIM", "T4:1GiB:context=64MiB", 1);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ~NodeFolder() {
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }

 private:
  std::string path_;
};

inline void* simulated_driver() {
  static NodeFolder folder;
  static void* library = ::dlopen(SIM_FOLDER "/libcuda.so.1", RTLD_NOW);
  return library;
}

template <typename Function>
Function* driver_function(const char* name) {
  void* address = simulated_driver() != nullptr ? ::dlsym(simulated_driver(), name) : nullptr;
  if (address == nullptr) {
    std::fprintf(stderr, "the simulated driver has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(address);
}

#define CU(name) (::ration::testing::driver_function<ration::cuda::name##_t>(#name))

/// Calls a function that has no declaration of ours by its name and the types given.
template <typename... Arguments>
CUresult call(const char* name, Arguments... arguments) {
  return driver_function<CUresult(Arguments...)>(name)(arguments...);
}

inline std::size_t free_bytes() {
  std::size_t available = 0, total = 0;
  EXPECT_EQ(CU(cuMemGetInfo_v2)(&available, &total), CUDA_SUCCESS);
  return available;
}

/// The primary context is current in every test, and each must leave the device as it found it.
class Simulated : public ::testing::Test {
 protected:
  void SetUp() override {
    CUcontext context = nullptr;
    ASSERT_EQ(CU(cuInit)(0), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    at_start_ = free_bytes();
  }
  void TearDown() override { EXPECT_EQ(free_bytes(), at_start_) << "something was left behind"; }

  std::size_t at_start_ = 0;
};

}  // namespace ration::testing
