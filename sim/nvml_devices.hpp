// The devices in the simulated NVML: their handles, the devices behind a handle, and the checks that its functions
// share. Used by nvml*.cpp.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "driver/nvml_abi.hpp"
#include "node.hpp"

#define RATION_NVML extern "C" [[gnu::visibility("default")]] ration::nvml::nvmlReturn_t

namespace ration::sim {

using nvml::nvmlDevice_t;
using nvml::nvmlReturn_t;

/// Counts calls of nvmlInit. note_shutdown() counts them down, and returns false if NVML was not initialised.
void note_init();
[[nodiscard]] bool note_shutdown();
[[nodiscard]] bool is_initialised();

/// Returns true for a GPU in MIG mode, which is not a device itself.
[[nodiscard]] bool is_divided(nvmlDevice_t handle);
[[nodiscard]] bool is_instance(nvmlDevice_t device);
[[nodiscard]] nvmlDevice_t handle_of(int index);
[[nodiscard]] nvmlDevice_t handle_of_card(int card);
/// Returns the index of a device; for a GPU in MIG mode, that of its first instance. Returns a negative number if there
/// is no such handle.
[[nodiscard]] int index_of(nvmlDevice_t handle);
[[nodiscard]] const Model& model(nvmlDevice_t device);
/// Returns the devices behind a handle: one, or all instances of a GPU.
[[nodiscard]] std::vector<int> devices_of(nvmlDevice_t handle);
/// Returns the driver's number of an instance, counted from 1; 0 for a whole GPU.
[[nodiscard]] unsigned int gpu_instance(const Model& model);

/// Checks that NVML is initialised, the device exists and `out` is not null.
[[nodiscard]] nvmlReturn_t valid(nvmlDevice_t device, const void* out);
/// Does what valid() does, for queries of a device's memory and processes: "In MIG mode, if device handle is provided,
/// the API returns aggregate information, only if the caller has appropriate privileges" (NVML).
[[nodiscard]] nvmlReturn_t valid_for_memory(nvmlDevice_t device, const void* out);
[[nodiscard]] nvmlReturn_t put(const std::string& text, char* out, unsigned int size);

template <typename Value>
nvmlReturn_t answer(nvmlDevice_t device, Value* out, std::type_identity_t<Value> value) {
  if (const auto state = valid(device, out); state != nvml::NVML_SUCCESS) return state;
  *out = value;
  return nvml::NVML_SUCCESS;
}

/// Does what answer() does, but only for whole GPUs.
template <typename Value>
nvmlReturn_t answer_of_card(nvmlDevice_t device, Value* out, std::type_identity_t<Value> value) {
  if (const auto state = valid(device, out); state != nvml::NVML_SUCCESS) return state;
  return is_divided(device) || is_instance(device) ? nvml::NVML_ERROR_NOT_SUPPORTED : answer(device, out, value);
}

constexpr unsigned int kNoInstance = 0xffffffff;  ///< the instance of a process on a whole GPU

/// Returns the first word of the process's command line, or "" if there is no such process.
[[nodiscard]] std::string process_name(int pid);

/// Returns the processes on a device, or on its instances, with the process numbers and holdings that the caller may
/// see. The first part of each entry is the index of the process's device.
[[nodiscard]] std::vector<std::pair<int, ProcessUse>> listed(nvmlDevice_t device);

}  // namespace ration::sim
