// The driver behind the runtime, contexts, and each thread's device and last error.
#include <dlfcn.h>

#include <mutex>
#include <string>
#include <utility>

#include "runtime.hpp"

namespace ration::cudart {

using namespace cuda;

namespace {

constexpr int kMaxDevices = 64;

thread_local constinit int thread_device = 0;
thread_local constinit Error last_error = cudaSuccess;
thread_local constinit const char* unsimulated = nullptr;
thread_local constinit Error last_returned = cudaSuccess;

std::mutex primaries_mutex;
CUcontext primaries[kMaxDevices];

void* library() {
  static void* const found = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return found;
}

}  // namespace

void* find_driver_function(const char* name) { return library() == nullptr ? nullptr : ::dlsym(library(), name); }

Error remember(Error error) noexcept {
  last_returned = error;
  if (error != cudaSuccess) {
    last_error = error;
    unsimulated = nullptr;
  }
  return error;
}

Error not_simulated(const char* function) noexcept {
  last_error = cudaErrorNotSupported;
  unsimulated = function;
  return cudaErrorNotSupported;
}

namespace {

/// Returns the observer, or null if there is none or the driver is not the simulated one.
sim::Observer observer() {
  static const sim::ObserverTable* const table = [] {
    const sim::ObserverTable* found = nullptr;
    auto* find = DRIVER(cuGetExportTable, CUresult(const sim::ObserverTable**, const void*));
    return find != nullptr && find(&found, sim::kObserverTable) == CUDA_SUCCESS ? found : nullptr;
  }();
  return table == nullptr ? nullptr : table->current->load(std::memory_order_relaxed);
}

}  // namespace

ReportedCall::ReportedCall(const char* function) : observer_(observer()) {
  if (observer_ == nullptr) return;
  operation_.emplace();
  operation_->work = sim::Work::kRuntime;
  operation_->function = function;
  observer_(&*operation_, 0);
}
ReportedCall::~ReportedCall() {
  if (observer_ == nullptr) return;
  operation_->result = static_cast<CUresult>(last_returned);
  observer_(&*operation_, 1);
}

Error start() {
  auto* init = DRIVER(cuInit, cuInit_t);  // called each time, since the child of a fork cannot use the parent's driver
  return init == nullptr ? cudaErrorInsufficientDriver : static_cast<Error>(init(0));
}

CUcontext current_context() {
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent, cuCtxGetCurrent_t)(&context);
  return context;
}

int device() noexcept {
  CUdevice current = 0;
  auto* get = DRIVER(cuCtxGetDevice, cuCtxGetDevice_t);
  return get != nullptr && get(&current) == CUDA_SUCCESS ? current : thread_device;
}

CUcontext primary(int ordinal) {
  if (ordinal < 0 || ordinal >= kMaxDevices) return nullptr;
  const std::lock_guard guard(primaries_mutex);
  CUcontext& context = primaries[ordinal];
  if (context == nullptr) {
    auto* retain = DRIVER(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain_t);
    if (const CUresult result = retain(&context, ordinal); result != CUDA_SUCCESS) {
      context = nullptr;
      remember(static_cast<Error>(result));
    }
  }
  return context;
}

bool forget_primary(int ordinal) {
  const std::lock_guard guard(primaries_mutex);
  return ordinal >= 0 && ordinal < kMaxDevices && std::exchange(primaries[ordinal], nullptr) != nullptr;
}

Error set_device(int ordinal) {
  if (const Error error = start(); error != cudaSuccess) return error;
  int count = 0;
  if (DRIVER(cuDeviceGetCount, cuDeviceGetCount_t)(&count) != CUDA_SUCCESS || ordinal < 0 || ordinal >= count)
    return cudaErrorInvalidDevice;
  CUcontext context = primary(ordinal);
  if (context == nullptr) return last_error;
  thread_device = ordinal;
  return static_cast<Error>(DRIVER(cuCtxSetCurrent, cuCtxSetCurrent_t)(context));
}

Error enter() {
  if (const Error error = start(); error != cudaSuccess) return error;
  return current_context() != nullptr ? cudaSuccess : set_device(thread_device);
}

}  // namespace ration::cudart

using namespace ration::cudart;
using namespace ration::cuda;

CUDART(cudaGetLastError)() {
  const Error error = last_error;
  last_error = cudaSuccess;
  return error;
}
CUDART(cudaPeekAtLastError)() { return last_error; }

extern "C" [[gnu::visibility("default")]] const char* cudaGetErrorName(Error error) { return name_of(error); }
extern "C" [[gnu::visibility("default")]] const char* cudaGetErrorString(Error error) {
  if (error != cudaErrorNotSupported) return text_of(error);
  if (unsimulated == nullptr) {  // the text of the driver may name the function
    const char* told = nullptr;
    auto* ask_driver = DRIVER(cuGetErrorString, cuGetErrorString_t);
    const bool known = ask_driver != nullptr && ask_driver(CUDA_ERROR_NOT_SUPPORTED, &told) == CUDA_SUCCESS;
    return known ? told : text_of(error);
  }
  thread_local std::string text;
  text = std::string("operation not supported: ") + unsimulated + " is not simulated by ration's libcudart.so." +
         std::to_string(RATION_CUDART) + " (see: ration help simulated)";
  return text.c_str();
}
