// Stands in for libcublasLt: descriptions, and one algorithm that always fits and needs no workspace.
#include <cstring>
#include <string>

#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15;

int not_offered(const char* function) noexcept {
  missing = function;
  return kNotSupported;
}

namespace {

/// cublasLtMatmulHeuristicResult_t
struct Result {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

/// Of every kind of description: none is read back.
struct Description {
  char contents[64];
};
int make(Handle* out) {
  if (out == nullptr) return kInvalidValue;
  *out = new Description{};
  return kSuccess;
}
int drop(Handle handle) {
  delete static_cast<Description*>(handle);
  return kSuccess;
}

}  // namespace
}  // namespace ration::standin

STANDIN int cublasLtCreate(Handle* out) { return has_context() ? make(out) : kNotInitialized; }
STANDIN int cublasLtDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatmulDescCreate(Handle* out, int, int) { return make(out); }
STANDIN int cublasLtMatmulDescDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatrixLayoutCreate(Handle* out, int, std::uint64_t, std::uint64_t, std::int64_t) {
  return make(out);
}
STANDIN int cublasLtMatrixLayoutDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatmulPreferenceCreate(Handle* out) { return make(out); }
STANDIN int cublasLtMatmulPreferenceDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatrixTransformDescCreate(Handle* out, int) { return make(out); }
STANDIN int cublasLtMatrixTransformDescDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatmulAlgoGetHeuristic(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int wanted,
                                           Result* out, int* count) {
  if (out == nullptr || count == nullptr || wanted < 1) return kInvalidValue;
  *out = {};
  out->waves = 1;
  *count = 1;
  return kSuccess;
}
STANDIN int cublasLtMatmulAlgoCheck(Handle, Handle, Handle, Handle, Handle, Handle, const void* algorithm,
                                    Result* out) {
  if (out == nullptr) return kInvalidValue;
  *out = {};
  if (algorithm != nullptr) std::memcpy(out->algorithm, algorithm, sizeof out->algorithm);
  return kSuccess;
}
STANDIN int cublasLtMatmulAlgoInit(Handle, int, int, int, int, int, int, int, void* algorithm) {
  std::memset(algorithm, 0, sizeof Result::algorithm);
  return kSuccess;
}
STANDIN int cublasLtMatmulAlgoGetIds(Handle, int, int, int, int, int, int, int wanted, int* ids, int* count) {
  if (wanted < 1 || ids == nullptr || count == nullptr) return kInvalidValue;
  ids[0] = 0;
  *count = 1;
  return kSuccess;
}
STANDIN std::size_t cublasLtGetVersion() { return RATION_CUDA_MAJOR * 10000; }
STANDIN std::size_t cublasLtGetCudartVersion() { return RATION_CUDA_MAJOR * 1000; }
STANDIN int cublasLtGetProperty(int kind, int* out) {
  *out = kind == 0 ? RATION_CUDA_MAJOR : 0;
  return kSuccess;
}
STANDIN const char* cublasLtGetStatusName(int status) {
  return status == kSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
STANDIN const char* cublasLtGetStatusString(int status) {
  if (status != kNotSupported || missing == nullptr) return cublasLtGetStatusName(status);
  thread_local std::string text;
  text = std::string(missing) + " is not simulated by ration (see: ration help simulated)";
  return text.c_str();
}
