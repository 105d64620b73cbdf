// What the daemon saw at one instant. Filled by the daemon's sampler, taken by History.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "history/amount.hpp"

namespace ration::history {

struct DeviceSample {
  std::string uuid, name;
  Bytes capacity;
  /// What the driver says is used, in all.
  Bytes driver_used;
  /// Of processes that were not started through ration.
  Bytes ungoverned;
  /// Used according to the driver, and of nobody: its own.
  Bytes unexplained;
};

/// A run for ever: its number begins anew with each boot, so its start belongs to its name.
struct RunKey {
  std::uint64_t number = 0;
  TimeMs started = 0;
  auto operator<=>(const RunKey&) const = default;
};

[[nodiscard]] constexpr RunKey run_key(std::uint64_t number, std::uint64_t started_ns) {
  return {number, to_ms(started_ns)};
}

/// One workload on one device. Tenant, user and labels are those of the first sample of a run.
struct WorkloadSample {
  RunKey run;
  std::string workload, tenant, user;
  /// `exp=42,team=nlp`.
  std::string labels;
  /// Place in Sample::devices.
  std::size_t device = 0;
  /// `limit` above the device's capacity counts as the capacity.
  Bytes used, limit, guarantee;
  /// Of the whole run so far: the largest `used`, and how many requests were denied.
  Bytes peak;
  std::uint64_t denials = 0;
  /// When it was over, as far as that is known; 0: it runs. What it held counts until then.
  TimeMs ended = 0;
  /// A hash of its command line; 0: not known.
  std::uint64_t command = 0;
};

struct Sample {
  /// Wall clock. Time that is recorded already is not recorded again when the clock is set back.
  std::int64_t time_ns = 0;
  std::vector<DeviceSample> devices;
  std::vector<WorkloadSample> workloads;
};

/// What became of a sample.
enum class Recorded {
  kHeld,       ///< the stretch since the last one is charged to who held memory at its start
  kFirst,      ///< nothing came before it
  kGap,        ///< too long ago: the stretch is entered as a gap, nobody is charged by guess
  kClockBack,  ///< the clock was set back: counting goes on when it reaches the recorded time again
};

/// One line of the event log (docs/http-api.md, Events).
struct Event {
  std::int64_t id = 0;
  TimeMs time = 0;
  std::string type, workload, tenant, user;
  std::optional<std::int64_t> gpu, pid, bytes;
  std::string denial, by, text, old_value, new_value, fix;
  /// Of a burst that is told as one: how many, and when the first was. `time` is the last one's.
  std::int64_t count = 1;
  TimeMs first_time = 0;  ///< 0: `time`
  /// JSON, for `ration why`.
  std::string why;
};

/// Without a time: that of the tick that tells it.
[[nodiscard]] inline Event plain_event(std::string type, std::string text) {
  Event event;
  event.type = std::move(type);
  event.text = std::move(text);
  return event;
}

}  // namespace ration::history
