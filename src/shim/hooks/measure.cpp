#include "shim/hooks/measure.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "driver/nvml_abi.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using ListProcesses = nvml::nvmlReturn_t(nvml::nvmlDevice_t, unsigned int*, nvml::nvmlProcessInfo_t*);

/// The few calls of NVML that are needed, found once. Stays initialised: starting NVML takes milliseconds on a real
/// node.
struct Nvml {
  nvml::nvmlReturn_t (*handle_by_uuid)(const char*, nvml::nvmlDevice_t*) = nullptr;
  ListProcesses* list = nullptr;
  bool ready = false;
};

const Nvml& library() noexcept {
  static SpinLock starting;
  static std::atomic<bool> tried{false};
  static Nvml nvml;
  if (tried.load(std::memory_order_acquire)) return nvml;
  const SpinGuard guard(starting);
  if (tried.load(std::memory_order_relaxed)) return nvml;
  if (void* handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
    auto* init = reinterpret_cast<nvml::nvmlReturn_t (*)()>(::dlsym(handle, "nvmlInit_v2"));
    nvml.handle_by_uuid = reinterpret_cast<decltype(nvml.handle_by_uuid)>(::dlsym(handle, "nvmlDeviceGetHandleByUUID"));
    nvml.list = reinterpret_cast<ListProcesses*>(::dlsym(handle, "nvmlDeviceGetComputeRunningProcesses_v3"));
    nvml.ready =
        init != nullptr && nvml.handle_by_uuid != nullptr && nvml.list != nullptr && init() == nvml::NVML_SUCCESS;
  }
  tried.store(true, std::memory_order_release);
  return nvml;
}

bool nvml_device(cuda::CUdevice device, nvml::nvmlDevice_t& out) noexcept {
  ledger::DeviceUuid uuid{};
  if (uuid_of(device, uuid) != cuda::CUDA_SUCCESS) return false;
  for (const char* kind : {"GPU-", "MIG-"}) {  // a card's, or an instance's
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

bool bytes_by_driver(cuda::CUdevice device, Bytes& out) noexcept {
  if (!library().ready) return false;
  nvml::nvmlDevice_t handle{};
  if (!nvml_device(device, handle)) return false;
  constexpr unsigned int kMost = 1024;
  static nvml::nvmlProcessInfo_t processes[kMost];
  static SpinLock reading;
  const SpinGuard guard(reading);
  unsigned int count = kMost;
  if (library().list(handle, &count, processes) != nvml::NVML_SUCCESS) return false;
  out = Bytes{0};  // not in the list: it holds nothing yet
  const auto self = static_cast<unsigned int>(::getpid());
  for (unsigned int i = 0; i < count && i < kMost; ++i) {
    if (processes[i].pid != self) continue;
    if (processes[i].usedGpuMemory == ~0ULL) return false;  // NVML's "not available"
    out = Bytes{processes[i].usedGpuMemory};
  }
  return true;
}

}  // namespace ration::shim
