// The plan of the logical devices, made from the configuration: the GPU, size and order of each. It needs neither the
// driver nor the environment. Used by runtime.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ration/runtime.hpp"
#include "runtime/physical.hpp"

namespace ration::runtime {

/// A logical GPU that is to be made.
struct PlannedDevice {
  std::size_t gpu = 0;         ///< index among the physical GPUs
  std::optional<Bytes> limit;  ///< absent: all available memory less the reserve, or a share of the GPU
  int priority = 0;
  int ordinal = 0;
};

/// Returns the entries of `options.virtual_devices` (one per visible GPU; an empty one means one device with all
/// memory) in the order of logical ids: by GPU and index, or, if ordinals are given, by ordinal first. `visible` are
/// indices among the physical GPUs, in visible order. Throws as VerifyVirtualDeviceSettings of TensorFlow does.
[[nodiscard]] std::vector<PlannedDevice> plan_devices(
    const GpuOptions& options, const std::vector<std::size_t>& visible,
    const std::function<PrimaryContext::Priorities(std::size_t gpu)>& priorities);

/// Returns the indices that `list` names among `count` physical GPUs. Throws InvalidArgumentError for an entry that is
/// invalid, unknown or repeated.
[[nodiscard]] std::vector<std::size_t> parse_visible_list(const std::string& list, std::size_t count);

/// Returns the memory that TensorFlow leaves to the system if no limit is configured.
[[nodiscard]] Bytes system_reserve(Bytes available, int capability_major);

}  // namespace ration::runtime
