// The stand-in for libcublas: handles with their workspaces and settings.

#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kNotInitialized = 1, kAllocFailed = 3, kInvalidValue = 7, kNotSupported = 15;

namespace {

struct Blas {
  cuda::CUdeviceptr workspace = 0;
  Handle stream = nullptr;
  int math_mode = 0, pointer_mode = 0, atomics_mode = 0, multiprocessors = 0;
};

Blas* of(Handle handle) { return static_cast<Blas*>(handle); }

/// Returns the size of a handle's workspace if the program sets none. NVIDIA's documentation of cublasSetWorkspace()
/// names 32 MiB for Hopper and newer, and 4 MiB for older GPUs.
std::size_t workspace_bytes() { return std::size_t{capability() >= 9 ? 32U : 4U} << 20; }

}  // namespace

Handle stream_of(Handle handle) { return of(handle)->stream; }

}  // namespace ration::standin

STANDIN int cublasCreate_v2(Handle* out) {
  if (out == nullptr) return kInvalidValue;
  if (!has_context()) return kNotInitialized;
  auto* blas = new Blas;
  blas->workspace = take(workspace_bytes());
  if (blas->workspace == 0) {
    delete blas;
    return kAllocFailed;
  }
  *out = blas;
  return kSuccess;
}
STANDIN int cublasDestroy_v2(Handle handle) {
  if (handle == nullptr) return kNotInitialized;
  give(of(handle)->workspace);
  delete of(handle);
  return kSuccess;
}
STANDIN int cublasSetStream_v2(Handle handle, Handle stream) {
  of(handle)->stream = stream;
  return kSuccess;
}
STANDIN int cublasGetStream_v2(Handle handle, Handle* out) {
  *out = of(handle)->stream;
  return kSuccess;
}
STANDIN int cublasSetWorkspace_v2(Handle, void*, std::size_t) { return kSuccess; }
#define SETTING(name, member)                             \
  STANDIN int cublasSet##name(Handle handle, int value) { \
    of(handle)->member = value;                           \
    return kSuccess;                                      \
  }                                                       \
  STANDIN int cublasGet##name(Handle handle, int* out) {  \
    *out = of(handle)->member;                            \
    return kSuccess;                                      \
  }
SETTING(MathMode, math_mode)
SETTING(PointerMode_v2, pointer_mode)
SETTING(AtomicsMode, atomics_mode)
SETTING(SmCountTarget, multiprocessors)
STANDIN int cublasGetVersion_v2(Handle, int* out) {
  *out = RATION_CUDA_MAJOR * 10000 + 900;
  return kSuccess;
}
STANDIN int cublasGetProperty(int kind, int* out) {
  *out = kind == 0 ? RATION_CUDA_MAJOR : 0;
  return kSuccess;
}
STANDIN std::size_t cublasGetCudartVersion() { return RATION_CUDA_MAJOR * 1000; }
STANDIN const char* cublasGetStatusName(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
STANDIN const char* cublasGetStatusString(int status) {
  return status == kNotSupported && missing != nullptr ? missing_text() : cublasGetStatusName(status);
}
