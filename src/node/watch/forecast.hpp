// Predicts when a device will be full, or a tenant at its limits, if usage keeps growing.
// Promises: a forecast needs a minute of steady growth, and steps (programs that start or resume) are no growth; a name
// without new samples is forgotten.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "node/snapshot/snapshot.hpp"

namespace ration::node {

class Forecast {
 public:
  /// Adds a sample of a device, or of anything else with a name.
  void note(const std::string& name, Bytes used, std::uint64_t now_ns);
  /// Returns the time until `free` is used up; absent if usage does not grow, or was not sampled for long enough.
  [[nodiscard]] std::optional<std::uint64_t> seconds_to_full(const std::string& name, Bytes free) const;

 private:
  static constexpr std::uint64_t kStepNs = 5'000'000'000, kSpanNs = 600'000'000'000, kMinSpanNs = 60'000'000'000;
  std::map<std::string, std::deque<std::pair<std::uint64_t, std::uint64_t>>> seen_;  // time and bytes of each sample
};

/// Adds samples of each workload, and of the memory outside of workloads, on each device. Enters into `snapshot` when a
/// device will be full, if memory outside of workloads grows, or if the limits of the growing workloads let them fill
/// the device.
void forecast_devices(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns);

/// Adds samples of every tenant on every device, and enters into `snapshot` when the tenant will reach its limits.
void forecast_limits(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns);

}  // namespace ration::node
