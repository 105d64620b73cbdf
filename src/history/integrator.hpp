// Turns samples into sums: the amounts of each run and device in each hour, and the points of the charts. Computes in
// memory only; the class History gives numbers to names, and stores the pending sums. Promises: the value of a sample
// holds until the next sample, or until the run is known to have ended; sums are whole byte-milliseconds; a stretch is
// counted once, or entered as a gap if it is longer than `longest_step`.
#pragma once

#include <compare>
#include <map>
#include <vector>

#include "history/sample.hpp"

namespace ration::history {

/// The number that stands for pinned host memory among the numbers of devices, which begin at 1. Rows with this number
/// say how much pinned memory a run held, and enter no sum of a device, no level and no chart.
inline constexpr std::int64_t kPinnedHost = 0;

/// A sample with numbers in place of names. Its bytes are plain numbers that were checked, and limits are at most the
/// device's capacity.
struct Instant {
  struct DeviceNow {
    std::int64_t device = 0, capacity = 0, driver_used = 0, ungoverned = 0, unexplained = 0;
    /// The start of uninterrupted watching.
    TimeMs begins = 0;
  };
  struct HoldingNow {
    std::int64_t run = 0, device = 0, used = 0, limited = 0, guaranteed = 0;
    std::int64_t workload_line = 0, tenant_line = 0;
    std::int64_t peak = 0, denials = 0;
    TimeMs ended = 0;
  };
  TimeMs time = 0;
  std::vector<DeviceNow> devices;
  std::vector<HoldingNow> holdings;
};

/// The amounts to add to the database; every key is one row.
struct Pending {
  struct UsageKey {
    std::int64_t hour, run, device;
    auto operator<=>(const UsageKey&) const = default;
  };
  struct Usage {
    std::int64_t ms = 0, used = 0, limited = 0, guaranteed = 0, held = 0, peak = 0, denials = 0;
  };
  struct DeviceKey {
    std::int64_t hour, device;
    auto operator<=>(const DeviceKey&) const = default;
  };
  struct DeviceHour {
    std::int64_t observed_ms = 0, gap_ms = 0, capacity = 0, gap = 0, governed = 0, ungoverned = 0, unexplained = 0,
                 ungoverned_peak = 0;
  };
  struct SpanKey {
    std::int64_t device;
    TimeMs begins;
    auto operator<=>(const SpanKey&) const = default;
  };
  struct PointKey {
    std::int64_t slot, line;
    auto operator<=>(const PointKey&) const = default;
  };
  struct Point {
    std::int64_t maximum = 0, ms = 0, limited = 0;
    __int128 sum = 0;
  };
  struct RunKeyNow {
    std::int64_t run, device;
    auto operator<=>(const RunKeyNow&) const = default;
  };
  struct RunDevice {
    TimeMs first = 0, last = 0;
    std::int64_t peak = 0, denials = 0, limited = 0, guaranteed = 0;
  };
  struct LevelKey {
    std::int64_t run, device, step;
    auto operator<=>(const LevelKey&) const = default;
  };

  std::map<UsageKey, Usage> usage;
  std::map<DeviceKey, DeviceHour> devices;
  std::map<SpanKey, TimeMs> spans;  ///< end of each span
  std::map<TimeMs, TimeMs> gaps;    ///< end of each gap, by its start
  std::map<PointKey, Point> points;
  std::map<RunKeyNow, RunDevice> runs;
  std::map<LevelKey, std::int64_t> levels;
};

/// The step between levels of held memory. For recommendations, the time that a run spent at each level is kept.
inline constexpr std::int64_t kLevelStep = std::int64_t{256} << 20;

class Integrator {
 public:
  /// Begins without a sample. A stretch longer than `longest_step` is a gap; `charts` enables points.
  Integrator(TimeMs longest_step, bool charts) : longest_step_(longest_step), charts_(charts) {}
  void set_longest_step(TimeMs step) { longest_step_ = step; }

  /// Continues from the state in the database.
  void resume(Instant last) {
    last_ = std::move(last);
    started_ = true;
  }

  [[nodiscard]] Recorded take(Instant now);

  /// Starts again after stored data was lost; devices count as watched since `from` at the earliest.
  void begin_anew(TimeMs from);

  [[nodiscard]] Pending& pending() noexcept { return pending_; }
  /// Returns the last sample; everything up to its time is counted.
  [[nodiscard]] const Instant& last() const noexcept { return last_; }

 private:
  void hold(TimeMs from, TimeMs to, const Instant& now);
  void chart(TimeMs from, TimeMs to, const Instant& now);
  void gap(TimeMs from, TimeMs to);
  void note_instant(const Instant& now, TimeMs from);

  TimeMs longest_step_;
  bool charts_;
  bool started_ = false;
  Instant last_;
  Pending pending_;
};

}  // namespace ration::history
