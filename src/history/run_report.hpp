// One run, looked back at: `ration report --last`, in the manner of jobstats. Used by the command line and the HTTP
// interface. Promises: notes only say what the recorded numbers show, each with something to type where there is one.
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
  /// The last limit that held; the device's capacity where there was none.
  std::int64_t peak = 0, limited = 0, guaranteed = 0, denials = 0;
  ByteTime used, limit_time;
  /// Recorded time, in which the means are.
  TimeMs ms = 0;
};

struct RunReport {
  RunFacts run;
  std::optional<TimeMs> ended;
  std::optional<std::int64_t> exit_code;
  std::vector<RunOnDevice> devices;
  /// Of all its devices: a limit holds on each.
  DeniedRequests denied;
  std::vector<std::string> notes;
  /// Other runs that waited or were denied while this one ran.
  std::int64_t others_waited = 0;
};

/// Inside a transaction of the caller. `workload` empty: the newest run of all. E1917 when there is none.
[[nodiscard]] Result<RunReport> make_run_report(Database& database, const std::string& workload);

[[nodiscard]] std::string to_text(const RunReport& report);
/// The same as a table for a wiki or a mail.
[[nodiscard]] std::string to_markdown(const RunReport& report);

}  // namespace ration::history
