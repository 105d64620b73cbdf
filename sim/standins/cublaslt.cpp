// The stand-in for libcublasLt: descriptions, and one algorithm that always fits and needs no workspace.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15;

namespace {

/// The layout of cublasLtMatmulHeuristicResult_t.
struct Result {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

/// A description of any kind. It keeps attributes by number; those that were never set are 0.
struct Description {
  std::map<int, std::vector<char>> attributes;

  template <typename Value>
  void keep(int number, Value value) {
    const auto* first = reinterpret_cast<const char*>(&value);
    attributes[number] = {first, first + sizeof value};
  }
};
Description* of(Handle handle) { return static_cast<Description*>(handle); }

int make(Handle* out) {
  if (out == nullptr) return kInvalidValue;
  *out = new Description;
  return kSuccess;
}
int drop(Handle handle) {
  delete of(handle);
  return kSuccess;
}
int set(Handle handle, int number, const void* value, std::size_t size) {
  if (handle == nullptr || value == nullptr) return kInvalidValue;
  const auto* first = static_cast<const char*>(value);
  of(handle)->attributes[number] = {first, first + size};
  return kSuccess;
}
int get(Handle handle, int number, void* out, std::size_t size, std::size_t* written) {
  if (handle == nullptr || (out == nullptr && size > 0)) return kInvalidValue;
  const auto found = of(handle)->attributes.find(number);
  if (size > 0) std::memset(out, 0, size);
  if (found != of(handle)->attributes.end() && size > 0)
    std::memcpy(out, found->second.data(), std::min(size, found->second.size()));
  if (written != nullptr) *written = size;
  return kSuccess;
}

}  // namespace

Handle stream_of(Handle) { return nullptr; }  // calls take the stream as an argument

}  // namespace ration::standin

STANDIN int cublasLtCreate(Handle* out) { return has_context() ? make(out) : kNotInitialized; }
STANDIN int cublasLtDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatmulDescCreate(Handle* out, int compute_type, int scale_type) {
  if (const int status = make(out); status != kSuccess) return status;
  of(*out)->keep(0, compute_type);
  of(*out)->keep(1, scale_type);
  return kSuccess;
}
STANDIN int cublasLtMatmulDescDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatrixLayoutCreate(Handle* out, int type, std::uint64_t rows, std::uint64_t columns,
                                       std::int64_t leading) {
  if (const int status = make(out); status != kSuccess) return status;
  // These are numbers of cublasLtMatrixLayoutAttribute_t.
  of(*out)->keep(0, type);
  of(*out)->keep(2, rows);
  of(*out)->keep(3, columns);
  of(*out)->keep(4, leading);
  of(*out)->keep(5, 1);  // one matrix in the batch
  return kSuccess;
}
STANDIN int cublasLtMatrixLayoutDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatmulPreferenceCreate(Handle* out) { return make(out); }
STANDIN int cublasLtMatmulPreferenceDestroy(Handle handle) { return drop(handle); }
STANDIN int cublasLtMatrixTransformDescCreate(Handle* out, int) { return make(out); }
STANDIN int cublasLtMatrixTransformDescDestroy(Handle handle) { return drop(handle); }
#define ATTRIBUTES(kind)                                                                                     \
  STANDIN int cublasLt##kind##SetAttribute(Handle handle, int number, const void* value, std::size_t size) { \
    return set(handle, number, value, size);                                                                 \
  }                                                                                                          \
  STANDIN int cublasLt##kind##GetAttribute(Handle handle, int number, void* out, std::size_t size,           \
                                           std::size_t* written) {                                           \
    return get(handle, number, out, size, written);                                                          \
  }
ATTRIBUTES(MatmulDesc)
ATTRIBUTES(MatrixLayout)
ATTRIBUTES(MatmulPreference)
ATTRIBUTES(MatrixTransformDesc)
STANDIN int cublasLtMatmul(Handle, Handle, const void*, const void*, Handle, const void*, Handle, const void*,
                           const void*, Handle, void*, Handle, const void*, void*, std::size_t, Handle stream) {
  launch(stream);
  return kSuccess;
}
STANDIN int cublasLtMatrixTransform(Handle, Handle, const void*, const void*, Handle, const void*, const void*, Handle,
                                    void*, Handle, Handle stream) {
  launch(stream);
  return kSuccess;
}
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
STANDIN std::size_t cublasLtGetVersion() { return RATION_CUDA_MAJOR * 10000 + 900; }
STANDIN std::size_t cublasLtGetCudartVersion() { return RATION_CUDA_MAJOR * 1000; }
STANDIN int cublasLtGetProperty(int kind, int* out) {
  *out = kind == 0 ? RATION_CUDA_MAJOR : 0;
  return kSuccess;
}
STANDIN const char* cublasLtGetStatusName(int status) {
  return status == kSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
STANDIN const char* cublasLtGetStatusString(int status) {
  return status == kNotSupported && missing != nullptr ? missing_text() : cublasLtGetStatusName(status);
}
