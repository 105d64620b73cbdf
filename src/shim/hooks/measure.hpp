// What the driver itself says this process holds: the only way to know what a context really costs.
#pragma once

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"

namespace ration::shim {

/// Loads NVML, which bytes_by_driver() otherwise does at its first call.
void prepare_to_measure() noexcept;

/// Bytes that NVML attributes to this process on `device`. False: NVML is absent or does not say (a container without
/// the host's process numbers, for example).
[[nodiscard]] bool bytes_by_driver(cuda::CUdevice device, Bytes& out) noexcept;

}  // namespace ration::shim
