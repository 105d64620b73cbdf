// Recommends a limit and a guarantee for a workload from its past runs. Used by `ration recommend` and the HTTP
// interface. Promises: every number comes with its reason; the back-test shows what each limit would have done to the
// recorded runs; the answer says so if there are too few runs.
#pragma once

#include <cstdint>
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
  /// `train`, or `nlp/train` if two tenants have one.
  std::string workload;
  TimeMs now = 0;
  /// How far back runs count.
  TimeMs window = 30 * kDayMs;
  /// The lowest limit to recommend: room for one CUDA context and a little more.
  Bytes floor{std::uint64_t{512} << 20};
  std::size_t fewest_runs = 5;
};

struct BackTest {
  Bytes limit;
  /// Recorded runs that would have been denied memory at that limit.
  std::size_t denied = 0;
};

struct Recommendation {
  std::string workload;
  /// Of the newest run, which may still be running.
  std::string name, tenant;
  bool running = false;
  std::size_t runs = 0, fewest_runs = 0;
  TimeMs first_run = 0, last_run = 0;
  /// By run: the peak on the device where it was largest.
  Bytes peak_p50, peak_p95, peak_max;
  std::uint64_t denials = 0;
  /// A lower bound for the greatest need of a denied run; zero: none is known.
  DeniedRequests denied;
  /// False: `not enough history`; then only peak_max and limit (a lower bound) are valid.
  bool enough = false;
  /// `good`, `fair`, `low`.
  std::string confidence;
  Bytes limit, guarantee;
  /// The reasons for both numbers, for a person; a floor or cap that decided is named.
  std::string limit_reason, guarantee_reason;
  std::vector<BackTest> checks;
  /// The limit of the newest run, and the memory reserved above the recommended one: byte-time per month.
  std::optional<Bytes> limit_today;
  ByteTime wasted_a_month;
  TimeMs hours_a_month_ms = 0;
};

/// Makes the recommendation. Requires a transaction of the caller. E1917 for a workload that never ran.
[[nodiscard]] Result<Recommendation> make_recommendation(Database& database, const RecommendQuestion& question);

/// Returns the command to type: `ration set` for a running workload, else `ration run` for the next time.
[[nodiscard]] std::string command_of(const Recommendation& recommendation);

/// Returns the text that `ration recommend` prints.
[[nodiscard]] std::string to_text(const Recommendation& recommendation, TimeMs now);

}  // namespace ration::history
