// A model of TensorFlow's BFC allocator (xla/tsl/framework/bfc_allocator.cc), which JAX uses as well.
// Not modelled: requests that wait for other threads of the program to free memory (up to 10 s) before they fail.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"

namespace ration::trace {

struct TensorFlowSettings {
  bool growth = true;                    ///< false: takes at the start all memory that it may use
  double fraction = 0;                   ///< per_process_gpu_memory_fraction; 0: all but the reserve
  std::optional<std::uint64_t> reserve;  ///< TF_DEVICE_MIN_SYS_MEMORY_IN_MB in bytes; absent: TensorFlow's own rule
  std::uint32_t capability = 7;          ///< the GPU's major compute capability, on which TensorFlow's own rule depends
};

/// Parses `growth:False,capability:8,reserve_mb:0,fraction:0.9`. Fails with E1813.
[[nodiscard]] Result<TensorFlowSettings> parse_tensorflow_settings(std::string_view text);

[[nodiscard]] MakeAllocator make_tensorflow(const TensorFlowSettings& settings);

}  // namespace ration::trace
