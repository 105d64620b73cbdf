#include "guard/hooks/measure.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "driver/nvml_abi.hpp"
#include "guard/driver_location.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/table.hpp"
#include "guard/resolve.hpp"

namespace ration::guard {
namespace {

using ListProcesses = nvml::nvmlReturn_t(nvml::nvmlDevice_t, unsigned int*, nvml::nvmlProcessInfo_t*);

/// The NVML functions that this file needs. They are looked up once, and NVML stays initialised, because starting NVML
/// takes milliseconds on a real node.
struct Nvml {
  nvml::nvmlReturn_t (*handle_by_uuid)(const char*, nvml::nvmlDevice_t*) = nullptr;
  ListProcesses* list = nullptr;
  nvml::nvmlReturn_t (*memory)(nvml::nvmlDevice_t, nvml::nvmlMemory_t*) = nullptr;
  bool ready = false;
};

const Nvml& library() noexcept {
  static SpinLock starting;
  static std::atomic<bool> tried{false};
  static Nvml nvml;
  if (tried.load(std::memory_order_acquire)) return nvml;
  const SpinGuard guard(starting);
  if (tried.load(std::memory_order_relaxed)) return nvml;
  // NVML is opened by its path, because its name leads to the guard, which answers for the workload.
  if (void* handle = open_first(&look_for_nvml); handle != nullptr) {
    auto* init = reinterpret_cast<nvml::nvmlReturn_t (*)()>(::dlsym(handle, "nvmlInit_v2"));
    nvml.handle_by_uuid = reinterpret_cast<decltype(nvml.handle_by_uuid)>(::dlsym(handle, "nvmlDeviceGetHandleByUUID"));
    void* list = ::dlsym(handle, "nvmlDeviceGetComputeRunningProcesses_v3");
    // Drivers of release 470 have the same list under this name.
    if (list == nullptr) list = ::dlsym(handle, "nvmlDeviceGetComputeRunningProcesses_v2");
    nvml.list = reinterpret_cast<ListProcesses*>(list);
    nvml.memory = reinterpret_cast<decltype(nvml.memory)>(::dlsym(handle, "nvmlDeviceGetMemoryInfo"));
    nvml.ready = init != nullptr && nvml.handle_by_uuid != nullptr && nvml.list != nullptr && nvml.memory != nullptr &&
                 init() == nvml::NVML_SUCCESS;
  }
  tried.store(true, std::memory_order_release);
  return nvml;
}

bool nvml_device(cuda::CUdevice device, nvml::nvmlDevice_t& out) noexcept {
  book::DeviceUuid uuid{};
  if (uuid_of(device, uuid) != cuda::CUDA_SUCCESS) return false;
  for (const char* kind : {"GPU-", "MIG-"}) {  // the prefix of a GPU or of a MIG instance
    char text[48];
    char* end = text + std::snprintf(text, sizeof text, "%s", kind);
    for (std::size_t i = 0; i < uuid.size(); ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) *end++ = '-';
      end += std::snprintf(end, 3, "%02x", uuid[i]);
    }
    if (library().handle_by_uuid(text, &out) == nvml::NVML_SUCCESS) return true;
  }
  return false;
}

}  // namespace

void prepare_to_measure() noexcept { (void)library(); }

BytesByDriver bytes_by_driver(cuda::CUdevice device) noexcept {
  BytesByDriver bytes;
  nvml::nvmlDevice_t handle{};
  if (!library().ready || !nvml_device(device, handle)) return bytes;
  constexpr unsigned int kMaxListed = 1024;
  static nvml::nvmlProcessInfo_t processes[kMaxListed];
  static SpinLock reading;
  const SpinGuard guard(reading);
  unsigned int count = kMaxListed;
  nvml::nvmlMemory_t memory{};
  if (library().list(handle, &count, processes) != nvml::NVML_SUCCESS ||
      library().memory(handle, &memory) != nvml::NVML_SUCCESS)
    return bytes;
  bytes.known = true;
  bytes.device = Bytes{memory.used};
  const auto self = static_cast<unsigned int>(::getpid());
  for (unsigned int i = 0; i < count && i < kMaxListed; ++i) {
    if (processes[i].pid != self || processes[i].usedGpuMemory == ~0ULL) continue;  // NVML's "not available"
    bytes.own = Bytes{processes[i].usedGpuMemory};
    bytes.lists_itself = bytes.own > Bytes{0};
  }
  return bytes;
}

Bytes context_between(const BytesByDriver& before, const BytesByDriver& after) noexcept {
  if (!before.known || !after.known) return kUsualContextCost;
  if (after.lists_itself) return after.own > before.own ? after.own - before.own : Bytes{0};
  // No context costs more; a larger difference comes from other processes that took memory meanwhile.
  constexpr Bytes kMaxCost{std::uint64_t{1} << 30};
  const Bytes growth = after.device > before.device ? after.device - before.device : Bytes{0};
  return growth > Bytes{0} && growth <= kMaxCost ? growth : kUsualContextCost;
}

}  // namespace ration::guard
