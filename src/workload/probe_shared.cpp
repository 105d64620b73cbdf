// Ways of taking memory that others can keep alive, and the process that does so; checkpoints; what an outsider steers.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <sstream>
#include <string>

#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "workload/driver_calls.hpp"
#include "workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

CUmemAllocationProp shareable() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return properties;
}

std::vector<int> descriptors;
std::vector<CUmemGenericAllocationHandle> imported;

/// Creates, exports and releases: only the descriptor is left.
CUresult export_and_release(std::size_t size, int& descriptor) {
  const auto properties = shareable();
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult result = DRIVER(cuMemCreate)(&handle, size, &properties, 0); result != CUDA_SUCCESS) return result;
  const CUresult result =
      DRIVER(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  DRIVER(cuMemRelease)(handle);
  return result;
}

/// `ration-workload open` as a child of its own, which opens every handle it is sent.
class Holder {
 public:
  bool start() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return false;
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (const int end : {to[0], to[1], from[0], from[1]}) ::close(end);
      ::execl("/proc/self/exe", "ration-workload", "open", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
    return true;
  }
  [[nodiscard]] bool running() const { return child_ > 0; }
  CUresult open(const CUipcMemHandle& handle) const {
    int result = CUDA_ERROR_UNKNOWN;
    if (::write(to_, &handle, sizeof handle) != sizeof handle || ::read(from_, &result, sizeof result) != sizeof result)
      return CUDA_ERROR_UNKNOWN;
    return static_cast<CUresult>(result);
  }
  void stop() {
    if (child_ < 0) return;
    ::close(to_);
    ::close(from_);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};
Holder holder;

CUresult share_and_free(std::size_t size) {
  if (!holder.running() && !holder.start()) return CUDA_ERROR_UNKNOWN;
  CUdeviceptr pointer = 0;
  if (const CUresult result = DRIVER(cuMemAlloc_v2)(&pointer, size); result != CUDA_SUCCESS) return result;
  CUipcMemHandle handle;
  CUresult result = DRIVER(cuIpcGetMemHandle)(&handle, pointer);
  if (result == CUDA_SUCCESS) result = holder.open(handle);
  DRIVER(cuMemFree_v2)(pointer);
  return result;
}

std::vector<CUdeviceptr> opened;

/// A child takes the memory, this process opens it, and the child is killed: nobody is left who was charged for it.
CUresult take_over(std::size_t size) {
  int from[2];
  if (::pipe(from) != 0) return CUDA_ERROR_UNKNOWN;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(from[1], 1);
    ::close(from[0]);
    ::close(from[1]);
    ::execl("/proc/self/exe", "ration-workload", "give", std::to_string(size >> 20).c_str(), nullptr);
    ::_exit(127);
  }
  ::close(from[1]);
  CUipcMemHandle handle;
  CUdeviceptr pointer = 0;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (::read(from[0], &handle, sizeof handle) == sizeof handle)
    result = DRIVER(cuIpcOpenMemHandle_v2)(&pointer, handle, 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(from[0]);
  if (result == CUDA_SUCCESS) opened.push_back(pointer);
  return result;
}

/// More than there is: before that is refused, what the dead left is looked for.
void look_for_the_dead() {
  CUdeviceptr pointer = 0;
  DRIVER(cuMemAlloc_v2)(&pointer, std::size_t{1} << 50);
}

std::vector<CUdeviceptr> pointers;

CUresult take(std::size_t size) {
  CUdeviceptr pointer = 0;
  const CUresult result = DRIVER(cuMemAlloc_v2)(&pointer, size);
  if (result == CUDA_SUCCESS) pointers.push_back(pointer);
  return result;
}

void free_pointers() {
  for (const CUdeviceptr pointer : pointers) DRIVER(cuMemFree_v2)(pointer);
  pointers.clear();
}

/// Goes on in a child that no handler of the C library hears of, when this process has ended.
void go_on_in_a_child() {
  int ended[2];
  if (::pipe(ended) != 0) return;
  if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) != 0) ::_exit(0);
  ::close(ended[1]);
  char none = 0;
  while (::read(ended[0], &none, 1) < 0) {
  }
  ::close(ended[0]);
}

CUresult to_the_host() {
  const CUresult result = DRIVER(cuCheckpointProcessLock)(::getpid(), nullptr);
  return result == CUDA_SUCCESS ? DRIVER(cuCheckpointProcessCheckpoint)(::getpid(), nullptr) : result;
}
CUresult to_the_device() {
  const CUresult result = DRIVER(cuCheckpointProcessRestore)(::getpid(), nullptr);
  return result == CUDA_SUCCESS ? DRIVER(cuCheckpointProcessUnlock)(::getpid(), nullptr) : result;
}

}  // namespace

std::vector<Way> shared_ways() {
  std::vector<Way> ways = {
      {"checkpointed",
       [](std::size_t n) {  // to the host and back after every block
         if (const CUresult result = take(n); result != CUDA_SUCCESS) return result;
         const CUresult result = to_the_host();
         return result == CUDA_SUCCESS ? to_the_device() : result;
       },
       free_pointers},
      {"vmm-exported",
       [](std::size_t n) {
         int descriptor = -1;
         const CUresult result = export_and_release(n, descriptor);
         if (result == CUDA_SUCCESS) descriptors.push_back(descriptor);
         return result;
       },
       [] {
         for (const int one : descriptors) ::close(one);
         descriptors.clear();
       }},
      {"vmm-own-import",
       [](std::size_t n) {
         int descriptor = -1;
         if (const CUresult result = export_and_release(n, descriptor); result != CUDA_SUCCESS) return result;
         CUmemGenericAllocationHandle handle = 0;
         const CUresult result = DRIVER(cuMemImportFromShareableHandle)(
             &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
         ::close(descriptor);
         if (result == CUDA_SUCCESS) imported.push_back(handle);
         return result;
       },
       [] {
         for (const auto handle : imported) DRIVER(cuMemRelease)(handle);
         imported.clear();
       }},
      {"ipc-freed", share_and_free,
       [] {
         holder.stop();
         look_for_the_dead();
       }},
      {"ipc-owner-killed", take_over,
       [] {
         for (const CUdeviceptr one : opened) DRIVER(cuIpcCloseMemHandle)(one);
         opened.clear();
         look_for_the_dead();
       }},
  };
  int devices = 0;
  DRIVER(cuDeviceGetCount)(&devices);
  if (devices > 1) {
    ways.push_back({"vmm-other-device",
                    [](std::size_t n) {
                      auto properties = shareable();
                      properties.location.id = 1;
                      CUmemGenericAllocationHandle handle = 0;
                      return DRIVER(cuMemCreate)(&handle, n, &properties, 0);
                    },
                    [] {}});
  }
  return ways;
}

int keep_open() {
  CUipcMemHandle handle;
  while (::read(0, &handle, sizeof handle) == sizeof handle) {
    CUdeviceptr pointer = 0;
    const int result = DRIVER(cuIpcOpenMemHandle_v2)(&pointer, handle, 1);
    if (::write(1, &result, sizeof result) != sizeof result) return 1;
  }
  return 0;
}

int give(std::size_t size) {
  CUdeviceptr pointer = 0;
  CUipcMemHandle handle;
  if (DRIVER(cuMemAlloc_v2)(&pointer, size) != CUDA_SUCCESS ||
      DRIVER(cuIpcGetMemHandle)(&handle, pointer) != CUDA_SUCCESS)
    return 1;
  if (::write(1, &handle, sizeof handle) != sizeof handle) return 1;
  ::pause();
  return 0;
}

int obey() {
  CUcontext own_context = nullptr;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string order;
    std::size_t mib = 0;
    words >> order >> mib;
    CUresult result = CUDA_SUCCESS;
    if (order == "take")
      result = take(mib << 20);
    else if (order == "heap")
      result = DRIVER(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, mib << 20);
    else if (order == "context")
      result = DRIVER(cuCtxCreate_v2)(&own_context, 0, 0);
    else if (order == "leave")
      result = DRIVER(cuCtxDestroy_v2)(own_context);
    else if (order == "checkpoint")
      result = to_the_host();
    else if (order == "restore")
      result = to_the_device();
    else if (order == "outlive")
      go_on_in_a_child();
    else
      free_pointers();
    std::cout << static_cast<int>(result) << std::endl;
  }
  return 0;
}

}  // namespace ration::workload
