// `sim_ending LIBRARY KIND`: calls exit() while three threads take and give memory of that kind without a pause.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "driver/cuda_graph_abi.hpp"

using namespace ration::cuda;

namespace {

void* library = nullptr;
#define CU(name) (reinterpret_cast<name##_t*>(::dlsym(library, #name)))

CUcontext context = nullptr;
std::atomic<int> started{0};
constexpr std::size_t kMiB = 1 << 20;

void take_and_give(std::string_view kind) {
  CU(cuCtxSetCurrent)(context);
  CUstream stream = nullptr;
  CU(cuStreamCreate)(&stream, 0);
  for (unsigned round = 0;; ++round) {
    if (round == 3) ++started;
    CUdeviceptr live[4] = {};
    for (CUdeviceptr& each : live) {
      const std::size_t size = kind == "small" ? 1 + round % 100'000 : (1 + round % 20) * kMiB;
      if (kind == "pool")
        CU(cuMemAllocAsync)(&each, size, stream);
      else if (kind == "managed")
        CU(cuMemAllocManaged)(&each, size, 1);
      else
        CU(cuMemAlloc_v2)(&each, size);
    }
    for (const CUdeviceptr each : live) kind == "pool" ? CU(cuMemFreeAsync)(each, stream) : CU(cuMemFree_v2)(each);
    if (kind == "contexts") {
      CUcontext own = nullptr;
      CU(cuCtxCreate_v2)(&own, 0, 0);
      CU(cuCtxDestroy_v2)(own);
    }
  }
}

}  // namespace

int main(int, char** argv) {
  library = ::dlopen(argv[1], RTLD_NOW);
  if (library == nullptr || CU(cuInit)(0) != CUDA_SUCCESS || CU(cuDevicePrimaryCtxRetain)(&context, 0) != CUDA_SUCCESS)
    return 1;
  for (int i = 0; i < 3; ++i) std::thread(take_and_give, std::string_view(argv[2])).detach();
  while (started < 3) std::this_thread::yield();
  std::exit(0);
}
