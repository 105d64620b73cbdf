// ration-workload: a real client of the driver API that takes memory in every way there is.
//   ration-workload probe [REQUEST_MIB]   each way in turn, until refused; one line a way: name, bytes obtained, left over
//   ration-workload hold                  keeps IPC handles open (for the probe)
//   ration-workload give MIB              takes memory for another process to open (for the probe)
//   ration-workload obey                  `take MIB`, `free`, `checkpoint`, `restore` from standard input
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "workload/driver_calls.hpp"
#include "workload/probe.hpp"
#include "workload/way.hpp"

using namespace ration::cuda;
using ration::workload::library;

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  const bool known = std::strcmp(mode, "probe") == 0 || std::strcmp(mode, "hold") == 0 || std::strcmp(mode, "give") == 0 ||
                     std::strcmp(mode, "obey") == 0;
  if (!known) {
    std::fprintf(stderr, "usage: ration-workload probe [REQUEST_MIB] | hold | give MIB | obey\n");
    return 2;
  }
  library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "ration-workload: %s\n", ::dlerror());
    return 1;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (DRIVER(cuInit)(0) != CUDA_SUCCESS || DRIVER(cuDeviceGet)(&device, 0) != CUDA_SUCCESS ||
      DRIVER(cuDevicePrimaryCtxRetain)(&context, device) != CUDA_SUCCESS || DRIVER(cuCtxSetCurrent)(context) != CUDA_SUCCESS) {
    std::fprintf(stderr, "ration-workload: no usable GPU\n");
    return 1;
  }
  if (std::strcmp(mode, "hold") == 0) return ration::workload::hold();
  if (std::strcmp(mode, "obey") == 0) return ration::workload::obey();
  const std::size_t size = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 256) << 20;
  return std::strcmp(mode, "give") == 0 ? ration::workload::give(size) : ration::workload::probe(size);
}
