// The stand-in for libcurand: generators with their state.
#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kNotInitialized = 101, kAllocationFailed = 102, kOutOfRange = 104;

namespace {

/// The size of a generator's state. NVIDIA's documentation of the default ordering names 4,096 sequences; the state of
/// XORWOW, the default generator, has 48 bytes (curandStateXORWOW in its header). It is assumed that the states of
/// other generators have the same size.
constexpr std::size_t kStateBytes = 4096 * 48;

struct Generator {
  bool on_the_host = false;
  Handle stream = nullptr;
  cuda::CUdeviceptr state = 0;
};
Generator* of(Handle handle) { return static_cast<Generator*>(handle); }

/// Starts the generator. Takes the memory for its state at the first call.
int start(Handle handle) {
  if (handle == nullptr) return kNotInitialized;
  if (of(handle)->on_the_host) return kSuccess;
  if (of(handle)->state == 0) of(handle)->state = take(kStateBytes);
  return of(handle)->state != 0 ? compute(handle) : kAllocationFailed;
}

}  // namespace

Handle stream_of(Handle handle) { return of(handle)->stream; }

}  // namespace ration::standin

STANDIN int curandCreateGenerator(Handle* out, int) {
  if (out == nullptr) return kOutOfRange;
  if (!has_context()) return kNotInitialized;
  *out = new Generator;
  return kSuccess;
}
STANDIN int curandCreateGeneratorHost(Handle* out, int) {
  if (out == nullptr) return kOutOfRange;
  *out = new Generator{true, nullptr, 0};
  return kSuccess;
}
STANDIN int curandDestroyGenerator(Handle handle) {
  if (handle == nullptr) return kNotInitialized;
  give(of(handle)->state);
  delete of(handle);
  return kSuccess;
}
STANDIN int curandSetStream(Handle handle, Handle stream) {
  if (handle == nullptr) return kNotInitialized;
  of(handle)->stream = stream;
  return kSuccess;
}
STANDIN int curandGenerateSeeds(Handle handle) { return start(handle); }
#define NUMBERS(name) \
  STANDIN int curandGenerate##name(Handle handle) { return start(handle); }
STANDIN int curandGenerate(Handle handle) { return start(handle); }
NUMBERS(LongLong)
NUMBERS(Uniform)
NUMBERS(UniformDouble)
NUMBERS(Normal)
NUMBERS(NormalDouble)
NUMBERS(LogNormal)
NUMBERS(LogNormalDouble)
NUMBERS(Poisson)
NUMBERS(PoissonMethod)
STANDIN int curandGetVersion(int* out) {
  *out = RATION_LIBRARY_MAJOR * 1000 + 900;
  return kSuccess;
}
STANDIN int curandGetProperty(int kind, int* out) {
  *out = kind == 0 ? RATION_LIBRARY_MAJOR : kind == 1 ? 9 : 0;
  return kSuccess;
}
