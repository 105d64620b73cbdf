// What the driver itself says is held: the only way to know what a context really costs.
#pragma once

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"

namespace ration::shim {

/// Loads NVML, which bytes_by_driver() otherwise does at its first call.
void prepare_to_measure() noexcept;

/// By NVML at one moment. In a container NVML before release 570 lists this process with 0 bytes, or not at all
/// (Project-HAMi/HAMi-core issue 112): then only the whole device is left to go by.
struct BytesByDriver {
  bool known = false;         ///< NVML answers
  bool lists_itself = false;  ///< this process, with what it holds
  Bytes own;                  ///< 0 while it is not listed
  Bytes device;               ///< in use, whoever holds it
};
[[nodiscard]] BytesByDriver bytes_by_driver(cuda::CUdevice device) noexcept;

/// Charged for a context where the driver tells no bytes: without NVML, say. Most cards take 100 to 500 MiB.
inline constexpr Bytes kUsualContextCost{std::uint64_t{256} << 20};

/// Returns what a context cost that was made between the two; kUsualContextCost where they do not tell.
[[nodiscard]] Bytes context_between(const BytesByDriver& before, const BytesByDriver& after) noexcept;

}  // namespace ration::shim
