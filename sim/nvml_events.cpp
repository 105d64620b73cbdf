// NVML's events of devices. A simulated device has none, so every wait times out.
#include <time.h>

#include "nvml_devices.hpp"

using namespace ration::nvml;
using namespace ration::sim;

struct ration::nvml::nvmlEventSet_st {};

RATION_NVML nvmlEventSetCreate(nvmlEventSet_t* out) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  return out != nullptr ? (*out = new nvmlEventSet_st, NVML_SUCCESS) : NVML_ERROR_INVALID_ARGUMENT;
}
RATION_NVML nvmlEventSetFree(nvmlEventSet_t set) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  delete set;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* out) {
  constexpr unsigned long long kCriticalError = 8;  // nvmlEventTypeXidCriticalError
  return answer_of_card(device, out, kCriticalError);
}
RATION_NVML nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
  unsigned long long supported = 0;
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const auto state = nvmlDeviceGetSupportedEventTypes(device, &supported); state != NVML_SUCCESS) return state;
  return (types & ~supported) == 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}
RATION_NVML nvmlEventSetWait_v2(nvmlEventSet_t set, void* out, unsigned int milliseconds) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  if (set == nullptr || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  timespec left{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1'000'000};
  while (::nanosleep(&left, &left) != 0) {
  }
  return NVML_ERROR_TIMEOUT;
}
RATION_NVML nvmlEventSetWait(nvmlEventSet_t set, void* out, unsigned int milliseconds) {
  return nvmlEventSetWait_v2(set, out, milliseconds);
}
