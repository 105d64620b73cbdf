// All other names of NVML. As in NVIDIA's library, functions that change something for every user are not permitted to
// users other than root; all others return NVML_ERROR_NOT_SUPPORTED.
#include <unistd.h>

#include <string_view>

namespace {

/// Returns true if a function's name shows that it changes a GPU or the machine for every user.
constexpr bool is_setter(std::string_view name) {
  constexpr std::string_view kObjects[] = {"nvmlDeviceWorkloadPowerProfile",
                                           "nvmlDevicePowerSmoothing",
                                           "nvmlDevice",
                                           "nvmlGpuInstance",
                                           "nvmlComputeInstance",
                                           "nvmlSystem",
                                           "nvmlUnit",
                                           "nvmlVgpuInstance"};
  constexpr std::string_view kVerbs[] = {"Set",    "Clear",  "Reset",   "Freeze", "Modify",
                                         "Remove", "Create", "Destroy", "Update", "Activate"};
  if (name.find("CpuAffinity") != name.npos || name == "nvmlDeviceClearFieldValues") return false;  // the caller's own
  for (const std::string_view object : kObjects) {
    if (!name.starts_with(object)) continue;
    for (const std::string_view verb : kVerbs)
      if (name.substr(object.size()).starts_with(verb)) return true;
    return false;
  }
  return false;
}

int answer(bool sets) {
  constexpr int kNotSupported = 3, kNoPermission = 4;
  return sets && ::geteuid() != 0 ? kNoPermission : kNotSupported;
}

}  // namespace

#define RATION_NVML_SYMBOL(index, symbol, ...)                        \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int symbol() { \
    constexpr bool kSets = is_setter(#symbol);                        \
    return answer(kSets);                                             \
  }
#include "driver/nvml_table.inc"
