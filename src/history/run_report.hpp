// A report on one past run: `ration report --last`, in the manner of jobstats. Used by the command line and the HTTP
// interface. Promise: notes state only what the recorded numbers show, each with a command to type if there is one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "history/charges.hpp"
#include "history/database.hpp"
#include "history/denied_requests.hpp"

namespace ration::history {

struct RunOnDevice {
  DeviceFacts device;
  TimeMs first = 0, last = 0;
  /// `limited` is the last limit in force, or the device's capacity if there was none.
  std::int64_t peak = 0, limited = 0, guaranteed = 0, denials = 0;
  ByteTime used, limit_time;
  /// Recorded time, over which the means are taken.
  TimeMs ms = 0;
};

struct RunReport {
  RunFacts run;
  std::optional<TimeMs> ended;
  std::optional<std::int64_t> exit_code;
  std::vector<RunOnDevice> devices;
  /// Over all its devices: a limit holds on each.
  DeniedRequests denied;
  std::vector<std::string> notes;
  /// Other runs that waited or were denied during this one.
  std::int64_t others_waited = 0;
};

/// Makes the report. Requires a transaction of the caller. `workload` empty: the newest run of all. E1917: there is
/// none.
[[nodiscard]] Result<RunReport> make_run_report(Database& database, const std::string& workload);

[[nodiscard]] std::string to_text(const RunReport& report);
/// Returns the report as a table for a wiki or a mail.
[[nodiscard]] std::string to_markdown(const RunReport& report);

}  // namespace ration::history
