// The stand-in for libcusparse: handles and descriptions of matrices. names_cusparse.txt defines the workspaces.
#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kNotInitialized = 1, kInvalidValue = 3, kNotSupported = 10;

namespace {

/// The assumed bytes of workspace for each stored element: an index and a value.
constexpr std::size_t kElementBytes = 16;

struct Sparse {
  Handle stream = nullptr;
  int pointer_mode = 0;
};
/// A description of a vector or a matrix, sparse or dense, or the state of an operation.
struct Description {
  int format = 0;  // cusparseFormat_t
  std::int64_t rows = 0, columns = 0, stored = 0;
  void* values = nullptr;
  int base = 0, type = 0, fill = 0, diagonal = 0, batches = 1;
  std::int64_t stride = 0;
};
Sparse* of(Handle handle) { return static_cast<Sparse*>(handle); }
Description* description(Handle handle) { return static_cast<Description*>(handle); }

int make(Handle* out, const Description& description) {
  if (out == nullptr) return kInvalidValue;
  *out = new Description(description);
  return kSuccess;
}
int drop(Handle handle) {
  delete description(handle);
  return kSuccess;
}

}  // namespace

Handle stream_of(Handle handle) { return of(handle)->stream; }
std::size_t count(Nonzeros nonzeros) {
  return nonzeros.matrix == nullptr ? 0 : count(description(nonzeros.matrix)->stored);
}
void workspace(int* out, std::size_t elements) { *out = static_cast<int>(elements * kElementBytes); }
void workspace(std::size_t* out, std::size_t elements) { *out = elements * kElementBytes; }

}  // namespace ration::standin

STANDIN int cusparseCreate(Handle* out) {
  if (out == nullptr) return kInvalidValue;
  if (!has_context()) return kNotInitialized;
  *out = new Sparse;
  return kSuccess;
}
STANDIN int cusparseDestroy(Handle handle) {
  delete of(handle);
  return kSuccess;
}
STANDIN int cusparseSetStream(Handle handle, Handle stream) {
  of(handle)->stream = stream;
  return kSuccess;
}
STANDIN int cusparseGetStream(Handle handle, Handle* out) {
  *out = of(handle)->stream;
  return kSuccess;
}
STANDIN int cusparseSetPointerMode(Handle handle, int mode) {
  of(handle)->pointer_mode = mode;
  return kSuccess;
}
STANDIN int cusparseGetPointerMode(Handle handle, int* out) {
  *out = of(handle)->pointer_mode;
  return kSuccess;
}

// Objects without a state that programs can query.
#define STATE(create, destroy)                              \
  STANDIN int create(Handle* out) { return make(out, {}); } \
  STANDIN int destroy(Handle handle) { return drop(handle); }
#define INFORMATION(name) STATE(cusparseCreate##name##Info, cusparseDestroy##name##Info)
INFORMATION(Csric02)
INFORMATION(Bsric02)
INFORMATION(Csrilu02)
INFORMATION(Bsrilu02)
INFORMATION(Bsrsv2)
INFORMATION(Bsrsm2)
INFORMATION(Csru2csr)
INFORMATION(Color)
INFORMATION(Prune)
STATE(cusparseSpSV_createDescr, cusparseSpSV_destroyDescr)
STATE(cusparseSpSM_createDescr, cusparseSpSM_destroyDescr)
STATE(cusparseSpGEMM_createDescr, cusparseSpGEMM_destroyDescr)
STATE(cusparseCreateMatDescr, cusparseDestroyMatDescr)
#define SETTING(name, member)                                  \
  STANDIN int cusparseSetMat##name(Handle handle, int value) { \
    description(handle)->member = value;                       \
    return kSuccess;                                           \
  }                                                            \
  STANDIN int cusparseGetMat##name(Handle handle) { return description(handle)->member; }
SETTING(Type, type)
SETTING(FillMode, fill)
SETTING(DiagType, diagonal)
SETTING(IndexBase, base)

// The matrices of the newer calls. Each can also be made of read-only memory.
using Wide = std::int64_t;
#define DESCRIPTION(name, content, ...)                                                                 \
  STANDIN int cusparseCreate##name(Handle* out, __VA_ARGS__) { return make(out, Description content); } \
  STANDIN int cusparseCreateConst##name(Handle* out, __VA_ARGS__) { return make(out, Description content); }
#define BRACED(...) \
  { __VA_ARGS__ }
DESCRIPTION(Csr, BRACED(1, rows, columns, stored, values, base), Wide rows, Wide columns, Wide stored, void*, void*,
            void* values, int, int, int base, int)
DESCRIPTION(Csc, BRACED(2, rows, columns, stored, values, base), Wide rows, Wide columns, Wide stored, void*, void*,
            void* values, int, int, int base, int)
DESCRIPTION(Coo, BRACED(3, rows, columns, stored, values, base), Wide rows, Wide columns, Wide stored, void*, void*,
            void* values, int, int base, int)
DESCRIPTION(BlockedEll, BRACED(5, rows, columns, rows* width, values, base), Wide rows, Wide columns, Wide, Wide width,
            void*, void* values, int, int base, int)
DESCRIPTION(Bsr, BRACED(6, rows, columns, blocks* height* width, values, base), Wide rows, Wide columns, Wide blocks,
            Wide height, Wide width, void*, void*, void* values, int, int, int base, int, int)
DESCRIPTION(SpVec, BRACED(0, size, 1, stored, values, base), Wide size, Wide stored, void*, void* values, int, int base,
            int)
DESCRIPTION(DnVec, BRACED(0, size, 1, size, values), Wide size, void* values, int)
DESCRIPTION(DnMat, BRACED(0, rows, columns, rows* columns, values), Wide rows, Wide columns, Wide, void* values, int,
            int)
STANDIN int cusparseDestroySpMat(Handle handle) { return drop(handle); }
STANDIN int cusparseDestroySpVec(Handle handle) { return drop(handle); }
STANDIN int cusparseDestroyDnMat(Handle handle) { return drop(handle); }
STANDIN int cusparseDestroyDnVec(Handle handle) { return drop(handle); }
STANDIN int cusparseSpMatGetSize(Handle handle, Wide* rows, Wide* columns, Wide* stored) {
  *rows = description(handle)->rows;
  *columns = description(handle)->columns;
  *stored = description(handle)->stored;
  return kSuccess;
}
STANDIN int cusparseSpMatGetFormat(Handle handle, int* out) {
  *out = description(handle)->format;
  return kSuccess;
}
STANDIN int cusparseSpMatGetIndexBase(Handle handle, int* out) {
  *out = description(handle)->base;
  return kSuccess;
}
STANDIN int cusparseCsrSetStridedBatch(Handle handle, int batches, Wide, Wide stride) {
  description(handle)->batches = batches;
  description(handle)->stride = stride;
  return kSuccess;
}
STANDIN int cusparseCooSetStridedBatch(Handle handle, int batches, Wide stride) {
  return cusparseCsrSetStridedBatch(handle, batches, 0, stride);
}
STANDIN int cusparseDnMatSetStridedBatch(Handle handle, int batches, Wide stride) {
  return cusparseCsrSetStridedBatch(handle, batches, 0, stride);
}
STANDIN int cusparseSpMatGetStridedBatch(Handle handle, int* out) {
  *out = description(handle)->batches;
  return kSuccess;
}
STANDIN int cusparseDnMatGetStridedBatch(Handle handle, int* batches, Wide* stride) {
  *batches = description(handle)->batches;
  *stride = description(handle)->stride;
  return kSuccess;
}
#define VALUES(kind)                                                   \
  STANDIN int cusparse##kind##GetValues(Handle handle, void** out) {   \
    *out = description(handle)->values;                                \
    return kSuccess;                                                   \
  }                                                                    \
  STANDIN int cusparse##kind##SetValues(Handle handle, void* values) { \
    description(handle)->values = values;                              \
    return kSuccess;                                                   \
  }
VALUES(SpMat)
VALUES(SpVec)
VALUES(DnMat)
VALUES(DnVec)
STANDIN int cusparseCsrSetPointers(Handle handle, void*, void*, void* values) {
  return cusparseSpMatSetValues(handle, values);
}
STANDIN int cusparseCscSetPointers(Handle handle, void*, void*, void* values) {
  return cusparseSpMatSetValues(handle, values);
}
STANDIN int cusparseCooSetPointers(Handle handle, void*, void*, void* values) {
  return cusparseSpMatSetValues(handle, values);
}
/// Computes nothing and writes 0. A real library computes the number of elements in a sum of two matrices on the
/// device.
STANDIN int cusparseXcsrgeam2Nnz(Handle handle, int, int, Handle, int, const int*, const int*, Handle, int, const int*,
                                 const int*, Handle, int*, int* elements, void*) {
  if (of(handle)->pointer_mode == 0) *elements = 0;
  return kSuccess;
}
STANDIN int cusparseGetVersion(Handle, int* out) {
  *out = RATION_LIBRARY_MAJOR * 1000 + 900;
  return kSuccess;
}
STANDIN int cusparseGetProperty(int kind, int* out) {
  *out = kind == 0 ? RATION_LIBRARY_MAJOR : kind == 1 ? 9 : 0;
  return kSuccess;
}
STANDIN const char* cusparseGetErrorName(int status) {
  switch (status) {
    case kSuccess:
      return "CUSPARSE_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUSPARSE_STATUS_NOT_INITIALIZED";
    case kInvalidValue:
      return "CUSPARSE_STATUS_INVALID_VALUE";
    default:
      return "CUSPARSE_STATUS_NOT_SUPPORTED";
  }
}
STANDIN const char* cusparseGetErrorString(int status) {
  return status == kNotSupported && missing != nullptr ? missing_text() : cusparseGetErrorName(status);
}
