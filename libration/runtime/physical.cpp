#include "runtime/physical.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

#include "driver/nvml_abi.hpp"

namespace ration::runtime {

using namespace cuda;

namespace {

/// Returns the hexadecimal digits of the UUID in groups of 8, 4, 4, 4 and 12.
std::string digits_of(const book::DeviceUuid& uuid) {
  std::string digits;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) digits += '-';
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", uuid[i]);
    digits += pair;
  }
  return digits;
}

}  // namespace

bool is_uuid(const std::string& text, const book::DeviceUuid& uuid) {
  const std::string kind = text.substr(0, 4);
  return (kind == "GPU-" || kind == "MIG-") && text.size() > 4 && digits_of(uuid).starts_with(text.substr(4));
}

std::vector<PhysicalGpu> query_gpus() {
  const driver::Driver* driver = driver::Driver::get();
  int count = 0;
  std::vector<PhysicalGpu> result;
  if (driver == nullptr || driver->cuDeviceGetCount(&count) != CUDA_SUCCESS) return result;
  for (int index = 0; index < count; ++index) {
    PhysicalGpu gpu;
    char name[256] = {};
    std::size_t total = 0;
    if (driver->cuDeviceGet(&gpu.ordinal, index) != CUDA_SUCCESS) continue;
    driver->cuDeviceGetName(name, sizeof name, gpu.ordinal);
    driver->cuDeviceTotalMem_v2(&total, gpu.ordinal);
    driver->cuDeviceGetAttribute(&gpu.capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu.ordinal);
    driver->cuDeviceGetAttribute(&gpu.capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu.ordinal);
    CUuuid uuid{};  // for a MIG instance, the older cuDeviceGetUuid() returns the UUID of its GPU
    if (driver->cuDeviceGetUuid_v2 != nullptr && driver->cuDeviceGetUuid_v2(&uuid, gpu.ordinal) == CUDA_SUCCESS)
      std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), reinterpret_cast<char*>(gpu.uuid.data()));
    gpu.name = name;
    gpu.total = Bytes{total};
    result.push_back(std::move(gpu));
  }
  return result;
}

std::optional<Bytes> used_by_everybody(const PhysicalGpu& gpu) {
  using namespace nvml;
  struct Management {
    nvmlReturn_t (*handle_by_uuid)(const char*, nvmlDevice_t*) = nullptr;
    nvmlReturn_t (*memory_info)(nvmlDevice_t, nvmlMemory_t*) = nullptr;
    Management() {
      void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) return;
      auto* init = reinterpret_cast<nvmlReturn_t (*)()>(::dlsym(library, "nvmlInit_v2"));
      if (init == nullptr || init() != NVML_SUCCESS) return;
      handle_by_uuid = reinterpret_cast<decltype(handle_by_uuid)>(::dlsym(library, "nvmlDeviceGetHandleByUUID"));
      memory_info = reinterpret_cast<decltype(memory_info)>(::dlsym(library, "nvmlDeviceGetMemoryInfo"));
    }
  };
  static const Management management;
  if (management.handle_by_uuid == nullptr || management.memory_info == nullptr || gpu.uuid == book::DeviceUuid{})
    return std::nullopt;
  const std::string digits = digits_of(gpu.uuid);
  nvmlDevice_t device = nullptr;
  nvmlMemory_t memory{};
  if ((management.handle_by_uuid(("GPU-" + digits).c_str(), &device) != NVML_SUCCESS &&
       management.handle_by_uuid(("MIG-" + digits).c_str(), &device) != NVML_SUCCESS) ||
      management.memory_info(device, &memory) != NVML_SUCCESS)
    return std::nullopt;
  return Bytes{memory.used};
}

PrimaryContext::PrimaryContext(const driver::Driver& driver, CUdevice device) : driver_(driver), device_(device) {
  if (driver_.cuDevicePrimaryCtxRetain(&context_, device_) != CUDA_SUCCESS) context_ = nullptr;
}

PrimaryContext::~PrimaryContext() {
  if (context_ != nullptr) driver_.cuDevicePrimaryCtxRelease_v2(device_);
}

PrimaryContext::Memory PrimaryContext::memory() const {
  const driver::ContextScope scope(driver_, context_);
  std::size_t available = 0;
  std::size_t total = 0;
  driver_.cuMemGetInfo_v2(&available, &total);
  return {Bytes{total}, Bytes{available}};
}

PrimaryContext::Priorities PrimaryContext::priorities() const {
  const driver::ContextScope scope(driver_, context_);
  Priorities result;
  if (driver_.cuCtxGetStreamPriorityRange != nullptr)
    driver_.cuCtxGetStreamPriorityRange(&result.lowest, &result.highest);
  return result;
}

void PrimaryContext::order(cuda::CUstream earlier, cuda::CUstream later) const {
  const driver::ContextScope scope(driver_, context_);
  if (driver::order(driver_, earlier, later) != cuda::CUDA_SUCCESS) driver_.cuCtxSynchronize();
}

}  // namespace ration::runtime
