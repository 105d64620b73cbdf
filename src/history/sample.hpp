// The state of the node at one instant. Filled by the daemon's sampler, taken by History.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/message.hpp"
#include "history/amount.hpp"

namespace ration::history {

struct DeviceSample {
  std::string uuid, name;
  Bytes capacity;
  /// The total that the driver reports as used.
  Bytes driver_used;
  /// Used by processes that were not started through ration.
  Bytes ungoverned;
  /// Used according to the driver, but by no process: its own.
  Bytes unexplained;
};

/// The permanent identity of a run: its number restarts with each boot, so its start is included.
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
  /// Such as `exp=42,team=nlp`.
  std::string labels;
  /// Index in Sample::devices.
  std::size_t device = 0;
  /// `limit` above the device's capacity counts as the capacity.
  Bytes used, limit, guarantee;
  /// For the whole run so far: the largest `used`, and the number of denied requests.
  Bytes peak;
  std::uint64_t denials = 0;
  /// When it ended, as far as known; 0: it runs. Its holdings count until then.
  TimeMs ended = 0;
  /// A hash of its command line; 0: unknown.
  std::uint64_t command = 0;
};

struct Sample {
  /// Wall clock. If the clock is set back, time that is recorded already is not recorded again.
  std::int64_t time_ns = 0;
  std::vector<DeviceSample> devices;
  std::vector<WorkloadSample> workloads;
};

/// The result of recording a sample.
enum class Recorded {
  kHeld,       ///< the stretch since the last one is charged to the holders at its start
  kFirst,      ///< the first sample
  kGap,        ///< too long after the last one: the stretch is entered as a gap and charged to no tenant
  kClockBack,  ///< the clock was set back: counting goes on when it reaches the recorded time again
};

/// One line of the event log (docs/http-api.md, Events).
struct Event {
  std::int64_t id = 0;
  TimeMs time = 0;
  std::string type, workload, tenant, user;
  std::optional<std::int64_t> gpu, pid, bytes;
  std::string denial, by, text, old_value, new_value, fix;
  /// For a burst that is recorded as one event: the count, and the first time. `time` is the last one's.
  std::int64_t count = 1;
  TimeMs first_time = 0;  ///< 0: `time`
  /// JSON, for `ration why`.
  std::string why;
  /// JSON: `message_id` and `arguments`, of which `text` is the English rendering. Empty: a text alone, as an older
  /// ration recorded it.
  std::string message;
};

/// Makes an event without a time: it gets that of the tick that reports it.
[[nodiscard]] inline Event plain_event(std::string type, Message text) {
  Event event;
  event.type = std::move(type);
  event.message = text.json();
  event.text = std::move(text);
  return event;
}

}  // namespace ration::history
