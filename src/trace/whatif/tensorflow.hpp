// A model of TensorFlow's BFC allocator (xla/tsl/framework/bfc_allocator.cc), which JAX uses as well.
// Not modelled: requests that wait for other threads of the program to free memory (up to 10 s) before they fail.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"

namespace ration::trace {

struct TensorFlowSettings {
  bool growth = true;   ///< false: all that it may take is taken at the start
  double fraction = 0;  ///< per_process_gpu_memory_fraction; 0: all but `reserve`
  /// What is left to the system where no fraction is given; TensorFlow's own rule if UINT64_MAX.
  std::uint64_t reserve = UINT64_MAX;
};

/// Parses `growth:False,reserve_mb:1050,fraction:0.9`. Fails with E1813.
[[nodiscard]] Result<TensorFlowSettings> parse_tensorflow_settings(std::string_view text);

[[nodiscard]] MakeAllocator make_tensorflow(const TensorFlowSettings& settings);

}  // namespace ration::trace
