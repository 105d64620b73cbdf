#include "runtime/physical.hpp"

namespace ration::runtime {

using namespace cuda;

std::vector<PhysicalGpu> look_at_gpus() {
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
    gpu.name = name;
    gpu.total = Bytes{total};
    result.push_back(std::move(gpu));
  }
  return result;
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

}  // namespace ration::runtime
