// A guard for a block of code: what it takes of the pools, at its peak, is held against a bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ration/runtime.hpp"

namespace ration {

/// Bytes that the logical GPUs of `runtime` had handed out at once, beyond what they had before, while `block()` ran.
/// Resets their peaks.
template <typename Block>
std::uint64_t growth_of(Runtime& runtime, Block&& block) {
  std::vector<std::uint64_t> before;
  const auto devices = runtime.list_logical_devices("GPU");
  for (const LogicalDevice& device : devices) {
    runtime.reset_memory_stats(device.name);
    before.push_back(runtime.get_memory_info(device.name).current);
  }
  block();
  std::uint64_t growth = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) growth += runtime.get_memory_info(devices[i].name).peak - before[i];
  return growth;
}

/// Runs `block()`; throws MemoryLimitExceeded if it took more than `max_bytes`. What the block throws comes through.
template <typename Block>
void guard_memory(Runtime& runtime, std::uint64_t max_bytes, const std::string& name, Block&& block) {
  const std::uint64_t growth = growth_of(runtime, block);
  if (growth <= max_bytes) return;
  throw MemoryLimitExceeded("the block '" + name + "' took " + std::to_string(growth) + " bytes of GPU memory, " +
                                std::to_string(growth - max_bytes) + " more than its " + std::to_string(max_bytes) + ".",
                            growth, max_bytes, growth);
}

}  // namespace ration
