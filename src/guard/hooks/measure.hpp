// Measurements of the memory that the driver itself reports as held, the only way to learn what a context really costs.
#pragma once

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"

namespace ration::guard {

/// Loads NVML, so that the first call of bytes_by_driver() need not load it.
void prepare_to_measure() noexcept;

/// NVML's figures at one moment. In a container NVML before release 570 lists this process with 0 bytes, or not at all
/// (Project-HAMi/HAMi-core issue 112): then only the whole device's figure is left.
struct BytesByDriver {
  bool known = false;         ///< true if NVML answers
  bool lists_itself = false;  ///< true if NVML lists this process with its bytes
  Bytes own;                  ///< bytes of this process; 0 if it is not listed
  Bytes device;               ///< bytes in use by all processes
};
[[nodiscard]] BytesByDriver bytes_by_driver(cuda::CUdevice device) noexcept;

/// The charge for a context if the driver reports no bytes, for example because there is no NVML. On most GPUs a
/// context takes 100 to 500 MiB.
inline constexpr Bytes kUsualContextCost{std::uint64_t{256} << 20};

/// Returns the cost of a context that was made between the two measurements, or kUsualContextCost if the measurements
/// do not show that cost.
[[nodiscard]] Bytes context_between(const BytesByDriver& before, const BytesByDriver& after) noexcept;

}  // namespace ration::guard
