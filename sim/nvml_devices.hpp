// The devices as the simulated management library's functions see them: their handles, what a handle stands for, and
// the answers that all of them give alike. Used by nvml*.cpp.
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

/// Counts up by nvmlInit, down by nvmlShutdown. False: it was not up.
void note_init();
[[nodiscard]] bool note_shutdown();
[[nodiscard]] bool is_initialised();

/// A handle is that of a device, or of a card in MIG mode, which is not a device itself.
[[nodiscard]] bool is_divided(nvmlDevice_t handle);
[[nodiscard]] bool is_instance(nvmlDevice_t device);
[[nodiscard]] nvmlDevice_t handle_of(int index);
[[nodiscard]] nvmlDevice_t handle_of_card(int card);
/// Of a card in MIG mode: its first instance. Negative: there is no such handle.
[[nodiscard]] int index_of(nvmlDevice_t handle);
[[nodiscard]] int card_count();
[[nodiscard]] const Model& model(nvmlDevice_t device);
/// The devices that a handle stands for: one, or all instances of a card.
[[nodiscard]] std::vector<int> devices_of(nvmlDevice_t handle);
/// The driver numbers them from 1 on; 0 is the whole card.
[[nodiscard]] unsigned int gpu_instance(const Model& model);

/// Whether the library is initialised, the device there, and `out` no null pointer.
[[nodiscard]] nvmlReturn_t valid(nvmlDevice_t device, const void* out);
/// "In MIG mode, if device handle is provided, the API returns aggregate information, only if the caller has
/// appropriate privileges" (NVML, memory and processes of a device).
[[nodiscard]] nvmlReturn_t valid_for_memory(nvmlDevice_t device, const void* out);
[[nodiscard]] nvmlReturn_t put(const std::string& text, char* out, unsigned int size);

template <typename Value>
nvmlReturn_t answer(nvmlDevice_t device, Value* out, std::type_identity_t<Value> value) {
  if (const auto state = valid(device, out); state != nvml::NVML_SUCCESS) return state;
  *out = value;
  return nvml::NVML_SUCCESS;
}

/// What NVML tells of whole cards alone.
template <typename Value>
nvmlReturn_t answer_of_card(nvmlDevice_t device, Value* out, std::type_identity_t<Value> value) {
  if (const auto state = valid(device, out); state != nvml::NVML_SUCCESS) return state;
  return is_divided(device) || is_instance(device) ? nvml::NVML_ERROR_NOT_SUPPORTED : answer(device, out, value);
}

constexpr unsigned int kNoInstance = 0xffffffff;  ///< of a process on a whole card

/// As its command line has it. Empty: there is no such process.
[[nodiscard]] std::string process_name(int pid);

/// What processes on a device, or on an instance of it, are called and hold, as the caller is told; beside each the
/// device that it is on.
[[nodiscard]] std::vector<std::pair<int, ProcessUse>> listed(nvmlDevice_t device);

}  // namespace ration::sim
