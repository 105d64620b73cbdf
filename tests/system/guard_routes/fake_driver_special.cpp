// The fake driver's functions that do something. Apart from fake_driver.cpp because there every name is an `int ()`.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

extern "C" {

int fake_resolve(const char* name, void** function, int version, std::uint64_t flags);

[[gnu::visibility("default")]] int cuGetProcAddress(const char* name, void** function, int version,
                                                    std::uint64_t flags) {
  return fake_resolve(name, function, version, flags);
}
[[gnu::visibility("default")]] int cuGetProcAddress_v2(const char* name, void** function, int version,
                                                       std::uint64_t flags, int* status) {
  const int result = fake_resolve(name, function, version, flags);
  if (status != nullptr) *status = result == 0 ? 0 : 1;
  return result;
}

// Retaining device 0 lasts until device 1 has been retained. FAKE_INSIDE is a descriptor for a byte that says that it
// is under way.
static std::atomic<bool> second_is_retained{false};
[[gnu::visibility("default")]] int cuDevicePrimaryCtxRetain(void** out, int device) {
  static char contexts[2];
  if (device == 1) second_is_retained = true;
  if (const char* inside = std::getenv("FAKE_INSIDE"); device == 0 && inside != nullptr)
    (void)!::write(std::atoi(inside), "", 1);
  while (!second_is_retained) ::sched_yield();
  *out = &contexts[device];
  return 0;
}
[[gnu::visibility("default")]] int cuDeviceGetUuid_v2(char* out, int device) {
  for (int i = 0; i < 16; ++i) out[i] = static_cast<char>(i);
  if (device == 1) out[0] = 100;
  return 0;
}

// Under FAKE_CONTEXT every thread has a current context, else none (CUDA_ERROR_INVALID_CONTEXT).
[[gnu::visibility("default")]] int cuCtxGetCurrent(void** out) {
  static char context;
  *out = &context;
  return std::getenv("FAKE_CONTEXT") != nullptr ? 0 : 201;
}

// What a later release may have: functions that no table lists, one by a name that cannot concern memory, and a
// variable.
[[gnu::visibility("default")]] int cuMemAllocOfTomorrow(int number) { return number + 1; }
[[gnu::visibility("default")]] int cuClockOfTomorrow(int number) { return number + 2; }
[[gnu::visibility("default")]] int cuMemAlloc_v9(int number) { return number + 3; }
[[gnu::visibility("default")]] int cuMemCountOfTomorrow = 4;

// Two functions nobody hooks, with the most awkward signatures a trampoline can meet.
[[gnu::visibility("default")]] double cuLaunchKernel(double a, int b, float c, long d, double e, short f, float g,
                                                     char h, double i, std::uint64_t j, double k, double l, double m,
                                                     double n, std::uint64_t o, float p, std::uint64_t q) {
  return a + b + c + static_cast<double>(d) + e + f + g + h + i + static_cast<double>(j) + k + l + m + n +
         static_cast<double>(o) + p + static_cast<double>(q);
}
[[gnu::visibility("default")]] double cuFuncGetModule(int count, ...) {
  va_list values;
  va_start(values, count);
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += va_arg(values, double);
  va_end(values);
  return sum;
}

}  // extern "C"
