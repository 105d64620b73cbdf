// When a device will be full, or a tenant at its limits, if its use goes on growing as it did. Used by the daemon.
// Promises: no forecast without a minute of steady growth, and none from steps (programs that start or come back); what
// is not looked at any more is forgotten.
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
  /// One look at a device, or whatever else has a name.
  void note(const std::string& name, Bytes used, std::uint64_t now_ns);
  /// Absent: its use does not grow, or is not known for long enough.
  [[nodiscard]] std::optional<std::uint64_t> seconds_to_full(const std::string& name, Bytes free) const;

 private:
  static constexpr std::uint64_t kStepNs = 5'000'000'000, kSpanNs = 600'000'000'000, kMinSpanNs = 60'000'000'000;
  std::map<std::string, std::deque<std::pair<std::uint64_t, std::uint64_t>>> seen_;  // time, bytes
};

/// Enters what each workload and the ungoverned processes hold on a device, and when the device will be full into
/// `snapshot`: only where what grows may grow that far. The limits of workloads that do not grow are not counted.
void forecast_devices(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns);

/// Enters what every tenant holds on every device into `forecast`, and when that reaches its limits into `snapshot`.
void forecast_limits(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns);

}  // namespace ration::node
