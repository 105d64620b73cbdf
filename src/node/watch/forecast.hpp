// Predicts when a device will be full, or a tenant at its limits, if usage keeps growing.
// Promises: no forecast without a minute of steady growth, and none from steps (programs that start or resume); a name
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
  /// Absent: usage does not grow, or was not sampled for long enough.
  [[nodiscard]] std::optional<std::uint64_t> seconds_to_full(const std::string& name, Bytes free) const;

 private:
  static constexpr std::uint64_t kStepNs = 5'000'000'000, kSpanNs = 600'000'000'000, kMinSpanNs = 60'000'000'000;
  std::map<std::string, std::deque<std::pair<std::uint64_t, std::uint64_t>>> seen_;  // time and bytes
};

/// Adds samples of each workload and of the ungoverned processes on a device, and enters into `snapshot` when the
/// device will be full, if those that grow can grow that far. Limits of other workloads do not count.
void forecast_devices(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns);

/// Adds samples of every tenant on every device, and enters into `snapshot` when it reaches its limits.
void forecast_limits(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns);

}  // namespace ration::node
