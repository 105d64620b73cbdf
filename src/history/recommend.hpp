// Recommends a limit and a guarantee for a workload from its past runs: the runs that the daemon has seen, or
// recordings. Used by `ration recommend` and the HTTP interface. Promises: every number has a reason; the back-test
// shows what each limit would have done to the recorded runs; the answer says whether there are enough runs.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "history/database.hpp"
#include "history/denied_requests.hpp"
#include "history/sample.hpp"

namespace ration::history {

struct RecommendQuestion {
  /// The workload: `train`, or `nlp/train` if two tenants have one of that name.
  std::string workload;
  TimeMs now = 0;
  /// How far back runs are taken into account.
  TimeMs window = 30 * kDayMs;
  /// The lowest limit to recommend: room for one CUDA context and a little more.
  Bytes floor{std::uint64_t{512} << 20};
  std::size_t fewest_runs = 5;
};

/// One run, on the device with its greatest peak, because a limit holds on each device.
struct RecordedRun {
  TimeMs first = 0, last = 0;
  Bytes peak, limited, capacity;
  std::int64_t denials = 0;
  DeniedRequests denied;
};

/// The recorded past of a workload.
struct Past {
  std::string name, tenant;  ///< of the newest run
  bool running = false;      ///< true while that run goes on
  std::vector<RecordedRun> runs;
  std::map<std::int64_t, TimeMs> levels;  ///< how long the runs held each level, which is a multiple of kLevelStep
};

struct BackTest {
  Bytes limit;
  /// The number of recorded runs that this limit would have denied memory.
  std::size_t denied = 0;
};

struct Recommendation {
  std::string workload;
  /// The names of the newest run, and whether it still runs.
  std::string name, tenant;
  bool running = false;
  std::size_t runs = 0, fewest_runs = 0;
  TimeMs first_run = 0, last_run = 0;
  /// The percentiles of the runs' peaks, each on the run's device with the greatest peak.
  Bytes peak_p50, peak_p95, peak_max;
  std::uint64_t denials = 0;
  /// The greatest known need of a denied run, as a lower bound; zero if no need is known.
  DeniedRequests denied;
  /// True if there are enough runs. Otherwise only peak_max and limit are valid, the limit as a lower bound.
  bool enough = false;
  /// One of `good`, `fair`, `low`.
  std::string confidence;
  Bytes limit, guarantee;
  /// The reasons for both numbers, as sentences. A reason says if the floor or the device's memory decided the number.
  std::string limit_reason, guarantee_reason;
  std::vector<BackTest> checks;
  /// The newest run's limit, and the byte-time per month by which that limit exceeds the recommended limit.
  std::optional<Bytes> limit_today;
  ByteTime wasted_a_month;
  TimeMs hours_a_month_ms = 0;
};

/// Makes the recommendation from at least one run.
[[nodiscard]] Recommendation recommend(const RecommendQuestion& question, const Past& past);

/// Makes the recommendation from the runs of the history. Requires that the caller has begun a transaction. Fails with
/// E1917 for a workload that never ran.
[[nodiscard]] Result<Recommendation> make_recommendation(Database& database, const RecommendQuestion& question);

/// Returns the command that applies the recommendation: `ration set` for a running workload, else `ration run` for the
/// next run.
[[nodiscard]] std::string command_of(const Recommendation& recommendation);

/// Returns the text that `ration recommend` prints.
[[nodiscard]] std::string to_text(const Recommendation& recommendation, TimeMs now);
/// Returns the JSON that `ration recommend -o json` prints and the HTTP interface answers.
[[nodiscard]] nlohmann::json to_json(const Recommendation& recommendation, TimeMs now);

}  // namespace ration::history
