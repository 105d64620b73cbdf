// Reports on one past run, for `ration report --last`, like the program jobstats. Used by the command line and the HTTP
// interface. Promise: notes state only what the recorded numbers show, and suggest a command if one helps.
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
  /// The peak, limit, guarantee and denials; `limited` is the last limit in force, or the device's capacity if there
  /// was none.
  std::int64_t peak = 0, limited = 0, guaranteed = 0, denials = 0;
  ByteTime used, limit_time;
  /// The recorded time, which is the divisor of the means.
  TimeMs ms = 0;
};

struct RunReport {
  RunFacts run;
  std::optional<TimeMs> ended;
  std::optional<std::int64_t> exit_code;
  std::vector<RunOnDevice> devices;
  /// The pinned host memory of the run; absent if its book does not count pinned memory.
  struct Pinned {
    std::int64_t peak = 0, denials = 0;
    ByteTime used;
  };
  std::optional<Pinned> pinned;
  /// The denied requests on all its devices, since a limit holds on each.
  DeniedRequests denied;
  std::vector<std::string> notes;
  /// The number of events in which other workloads waited or were denied memory during this run.
  std::int64_t others_waited = 0;
};

/// Makes the report. `workload` is empty for the newest run of all. Requires that the caller has begun a transaction.
/// Fails with E1917 if there is no such run.
[[nodiscard]] Result<RunReport> make_run_report(Database& database, const std::string& workload);

[[nodiscard]] std::string to_text(const RunReport& report);
/// Returns the report as a table for a wiki or a mail.
[[nodiscard]] std::string to_markdown(const RunReport& report);

}  // namespace ration::history
