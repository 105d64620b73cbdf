// A model of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp) with its settings, as PYTORCH_ALLOC_CONF
// has them.
// Not modelled: blocks that several streams use (record_stream), which become free later; private pools of graphs;
// addresses, which decide between free blocks of one size.
#pragma once

#include <array>
#include <string_view>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"

namespace ration::trace {

struct PyTorchSettings {
  std::uint64_t max_split = UINT64_MAX;  ///< bytes; larger blocks are not split
  std::uint64_t max_non_split_rounding = std::uint64_t{20} << 20;
  double garbage_collection_threshold = 0;  ///< has an effect only if `memory_fraction` is set, as in PyTorch
  double memory_fraction = 0;               ///< 0: none. PyTorch treats a setting of 1.0 as none, too
  bool expandable_segments = false;
  std::array<std::uint32_t, 16> roundup_divisions{};  ///< for each power of two of a size, from 1 MiB; 0: none
};

/// Parses `max_split_size_mb:128,roundup_power2_divisions:[256:1,>:4]`. Fails with E1813.
[[nodiscard]] Result<PyTorchSettings> parse_pytorch_settings(std::string_view text);

[[nodiscard]] MakeAllocator make_pytorch(const PyTorchSettings& settings);

}  // namespace ration::trace
