// The state of the node at one instant. The daemon's sampler fills it; History records it.
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
  /// The bytes of processes that were not started through ration.
  Bytes ungoverned;
  /// The driver's own bytes, which no process uses.
  Bytes unexplained;
};

/// The permanent identity of a run. It includes the start, because the number restarts with each boot.
struct RunKey {
  std::uint64_t number = 0;
  TimeMs started = 0;
  auto operator<=>(const RunKey&) const = default;
};

[[nodiscard]] constexpr RunKey run_key(std::uint64_t number, std::uint64_t started_ns) {
  return {number, to_ms(started_ns)};
}

/// One workload on one device. Tenant, user and labels are recorded from a run's first sample only.
struct WorkloadSample {
  RunKey run;
  std::string workload, tenant, user;
  /// The labels, such as `exp=42,team=nlp`.
  std::string labels;
  /// The index in Sample::devices.
  std::size_t device = 0;
  /// The bytes now; a limit above the device's capacity counts as the capacity.
  Bytes used, limit, guarantee;
  /// The largest `used` of the run so far, and the number of its denied requests.
  Bytes peak;
  std::uint64_t denials = 0;
  /// The time of its end, as far as known; 0 while it runs. Its memory counts until then.
  TimeMs ended = 0;
  /// A hash of its command line; 0 if unknown.
  std::uint64_t command = 0;
};

/// The pinned host memory of a run, all its processes together; it is on no device. A run without a PinnedSample has a
/// book that does not count pinned memory.
struct PinnedSample {
  RunKey run;
  /// The bytes now, and the most so far: at most kMaxDevice.
  Bytes used, peak;
  std::uint64_t denials = 0;
  TimeMs ended = 0;  ///< as in its WorkloadSample
};

struct Sample {
  /// The wall clock. After this clock is set back, recording goes on when the clock reaches the recorded time again.
  std::int64_t time_ns = 0;
  std::vector<DeviceSample> devices;
  std::vector<WorkloadSample> workloads;
  std::vector<PinnedSample> pinned;  ///< at most one per run; a sample whose run is not in `workloads` is ignored
};

/// The result of recording a sample.
enum class Recorded {
  kHeld,       ///< the stretch since the last sample is charged to the holders at its start
  kFirst,      ///< the first sample
  kGap,        ///< the stretch is too long: it is entered as a gap and charged to no tenant
  kClockBack,  ///< the clock was set back; counting goes on once it reaches the recorded time again
};

/// One line of the event log (docs/http-api.md, Events).
struct Event {
  std::int64_t id = 0;
  TimeMs time = 0;
  std::string type, workload, tenant, user;
  std::optional<std::int64_t> gpu, pid, bytes;
  std::string denial, by, text, old_value, new_value, fix;
  /// The number of equal events that this event stands for, and the time of the first; `time` is the time of the last.
  std::int64_t count = 1;
  TimeMs first_time = 0;  ///< 0 if it is `time`
  /// The facts for `ration why`, as JSON.
  std::string why;
  /// The `message_id` and `arguments` of `text`, as JSON; empty for an event that an older ration recorded as text
  /// alone.
  std::string message;
};

/// Makes an event without a time; it gets the time of the tick that reports it.
[[nodiscard]] inline Event plain_event(std::string type, Message text) {
  Event event;
  event.type = std::move(type);
  event.message = text.json();
  event.text = std::move(text);
  return event;
}

}  // namespace ration::history
