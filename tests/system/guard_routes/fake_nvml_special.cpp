// The fake NVML has one device of 16 GiB, of which 10 GiB are used by three processes: our parent, init and one more.
#include <unistd.h>

#include <cstdint>
#include <cstdio>

extern "C" {

#define EXPORT [[gnu::visibility("default")]]

EXPORT const char* nvmlErrorString(int) { return "fake"; }

EXPORT int nvmlDeviceGetUUID(void*, char* out, unsigned size) {
  std::snprintf(out, size, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  return 0;
}
EXPORT int nvmlDeviceGetMemoryInfo(void*, std::uint64_t* out) {
  out[0] = 16ull << 30;
  out[1] = 6ull << 30;
  out[2] = 10ull << 30;
  return 0;
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(void*, std::uint64_t* out) {
  out[1] = 16ull << 30;
  out[2] = 1ull << 29;
  out[3] = 6ull << 30;
  out[4] = 10ull << 30;
  return 0;
}

EXPORT int nvmlDeviceGetMemoryOfTomorrow(int number) { return number + 6; }

// NVML's private table, which nvidia-smi asks for: how large it is, then functions.
static int private_function() { return 77; }
EXPORT int nvmlInternalGetExportTable(const void** out, const void* id) {
  static const void* table[2] = {reinterpret_cast<void*>(sizeof table), reinterpret_cast<void*>(&private_function)};
  if (id == nullptr) return 2;
  *out = table;
  return 0;
}

struct Process {
  std::uint32_t pid;
  std::uint64_t used;
  std::uint32_t gpu_instance, compute_instance;
};
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* out) {
  const unsigned room = *count;
  *count = 3;
  if (room < 3) return 7;
  out[0] = {1, 1ull << 30, 0, 0};
  out[1] = {static_cast<std::uint32_t>(::getppid()), 4ull << 30, 0, 0};
  out[2] = {99999999, 5ull << 30, 0, 0};
  return 0;
}

}  // extern "C"
