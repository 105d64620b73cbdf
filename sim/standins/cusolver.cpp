// The stand-in for libcusolver's dense part (cusolverDn): handles and settings. names_cusolver.txt defines the
// workspaces and results.
#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kNotInitialized = 1, kInvalidValue = 3;

namespace {

/// The bytes of the largest element, a complex double. It is assumed for every function that returns bytes, because
/// these functions name the type of elements in different ways.
constexpr std::size_t kElementBytes = 16;

struct Solver {
  Handle stream = nullptr;
  int deterministic_mode = 1, math_mode = 1;
};
Solver* of(Handle handle) { return static_cast<Solver*>(handle); }

/// Parameters, or settings of the Jacobi methods; none has an effect.
struct Settings {};

}  // namespace

Handle stream_of(Handle handle) { return of(handle)->stream; }
// Writes the size of a workspace. It is assumed to be the size of the matrices, since NVIDIA's documentation states no
// sizes and refers to these functions.
void workspace(int* out, std::size_t elements) { *out = static_cast<int>(elements > 0 ? elements : 1); }
void workspace(std::size_t* out, std::size_t elements) { *out = (elements > 0 ? elements : 1) * kElementBytes; }

}  // namespace ration::standin

STANDIN int cusolverDnCreate(Handle* out) {
  if (out == nullptr) return kInvalidValue;
  if (!has_context()) return kNotInitialized;
  *out = new Solver;
  return kSuccess;
}
STANDIN int cusolverDnDestroy(Handle handle) {
  if (handle == nullptr) return kNotInitialized;
  delete of(handle);
  return kSuccess;
}
STANDIN int cusolverDnSetStream(Handle handle, Handle stream) {
  of(handle)->stream = stream;
  return kSuccess;
}
STANDIN int cusolverDnGetStream(Handle handle, Handle* out) {
  *out = of(handle)->stream;
  return kSuccess;
}
#define SETTING(name, member)                                 \
  STANDIN int cusolverDnSet##name(Handle handle, int value) { \
    of(handle)->member = value;                               \
    return kSuccess;                                          \
  }                                                           \
  STANDIN int cusolverDnGet##name(Handle handle, int* out) {  \
    *out = of(handle)->member;                                \
    return kSuccess;                                          \
  }
SETTING(DeterministicMode, deterministic_mode)
SETTING(MathMode, math_mode)
#define SETTINGS(name)                                 \
  STANDIN int cusolverDnCreate##name(Handle* out) {    \
    if (out == nullptr) return kInvalidValue;          \
    *out = new Settings;                               \
    return kSuccess;                                   \
  }                                                    \
  STANDIN int cusolverDnDestroy##name(Handle handle) { \
    delete static_cast<Settings*>(handle);             \
    return kSuccess;                                   \
  }
SETTINGS(Params)
SETTINGS(SyevjInfo)
SETTINGS(GesvdjInfo)
STANDIN int cusolverGetVersion(int* out) {
  *out = RATION_LIBRARY_MAJOR * 1000 + 900;
  return kSuccess;
}
STANDIN int cusolverGetProperty(int kind, int* out) {
  *out = kind == 0 ? RATION_LIBRARY_MAJOR : kind == 1 ? 9 : 0;
  return kSuccess;
}
