// Guards for blocks of code. Each guard checks whether its block took more memory from the pools than allowed. Guards
// can be nested.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "ration/runtime.hpp"

namespace ration {

/// A measurement of growth on the logical GPUs of a runtime: the bytes in use at the peak, minus the bytes in use when
/// the measurement began. The measurement resets the peaks of the GPUs. Before that, other watches that are alive store
/// the peaks so far. If the program calls reset_memory_stats(), the peak before that call is lost. Thread-safe.
class GrowthWatch {
 public:
  explicit GrowthWatch(Runtime& runtime) : runtime_(runtime), devices_(runtime.list_logical_devices("GPU")) {
    const std::lock_guard guard(mutex());
    look_at_all();
    for (const LogicalDevice& device : devices_) {
      runtime_.reset_memory_stats(device.name);
      before_.push_back(runtime_.get_memory_info(device.name).current);
    }
    highest_ = before_;
    place_ = all().insert(all().end(), this);
  }
  ~GrowthWatch() {
    const std::lock_guard guard(mutex());
    all().erase(place_);
  }
  GrowthWatch(const GrowthWatch&) = delete;
  GrowthWatch& operator=(const GrowthWatch&) = delete;

  [[nodiscard]] std::uint64_t growth() {
    const std::lock_guard guard(mutex());
    look();
    std::uint64_t result = 0;
    for (std::size_t i = 0; i < devices_.size(); ++i) result += highest_[i] - before_[i];
    return result;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::list<GrowthWatch*>& all() {
    static std::list<GrowthWatch*> living;
    return living;
  }
  static void look_at_all() {
    for (GrowthWatch* each : all()) each->look();
  }
  void look() {
    for (std::size_t i = 0; i < devices_.size(); ++i)
      highest_[i] = std::max(highest_[i], runtime_.get_memory_info(devices_[i].name).peak);
  }

  Runtime& runtime_;
  std::vector<LogicalDevice> devices_;
  std::vector<std::uint64_t> before_, highest_;
  std::list<GrowthWatch*>::iterator place_;
};

/// Returns the growth in bytes that GrowthWatch measures while `block()` runs.
template <typename Block>
std::uint64_t growth_of(Runtime& runtime, Block&& block) {
  GrowthWatch watch(runtime);
  block();
  return watch.growth();
}

/// Runs `block()`; throws MemoryLimitExceeded if the block took more than `max_bytes`. Passes on exceptions of the
/// block.
template <typename Block>
void guard_memory(Runtime& runtime, std::uint64_t max_bytes, const std::string& name, Block&& block) {
  const std::uint64_t growth = growth_of(runtime, block);
  if (growth <= max_bytes) return;
  throw MemoryLimitExceeded("the block '" + name + "' took " + std::to_string(growth) + " bytes of GPU memory, " +
                                std::to_string(growth - max_bytes) + " more than its " + std::to_string(max_bytes) +
                                ".",
                            growth, max_bytes, growth);
}

}  // namespace ration
