// Allocation histories: recorded ones (share/ration/traces) and a synthetic training run. Used by ration-workload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::workload {

struct Event {
  bool allocate = false;
  std::uint32_t id = 0;    ///< the number of the block, dense from 0
  std::uint64_t size = 0;  ///< the bytes of an allocation
};

struct Trace {
  std::string name;
  std::vector<Event> events;
  std::uint32_t blocks = 0;
  std::uint64_t peak_live = 0;
};

/// Reads a CSV `t_us,op,id,size,stream`, by its path or by its name in share/ration/traces.
[[nodiscard]] Result<Trace> read_trace(const std::string& file);

/// Makes a training run. In the first step it takes `steady` bytes that stay, between activations. In each of `steps`
/// more steps it takes other activations and a workspace, up to `peak` bytes in all. Sizes are spread from 64 KiB to 64
/// MiB, no two steps are alike, and the same seed makes the same run.
[[nodiscard]] Trace training_job(std::uint64_t steady, std::uint64_t peak, int steps, unsigned seed);

}  // namespace ration::workload
