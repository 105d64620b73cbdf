// Which limit and guarantee a workload needs, from what its runs did. Used by `ration recommend` and the HTTP
// interface. Promises: every number comes with its reason; the back-test says what each limit would have done to the
// recorded runs; too few runs are said to be too few.
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
  /// `train`, or `nlp/train` where two tenants have one.
  std::string workload;
  TimeMs now = 0;
  /// How far back runs count.
  TimeMs window = 30 * kDayMs;
  /// No limit below this is recommended: room for one CUDA context and a little more.
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
  /// Of the newest run, which may still run as far as is recorded.
  std::string name, tenant;
  bool running = false;
  std::size_t runs = 0, fewest_runs = 0;
  TimeMs first_run = 0, last_run = 0;
  /// By run: the peak on the device where it was largest.
  Bytes peak_p50, peak_p95, peak_max;
  std::uint64_t denials = 0;
  /// The most that a denied run needed, at least; zero: nothing is known of one.
  DeniedRequests denied;
  /// False: `not enough history`; then only peak_max and limit (a least one) mean something.
  bool enough = false;
  /// `good`, `fair`, `low`.
  std::string confidence;
  Bytes limit, guarantee;
  /// How the two came about, for a person; a floor or cap that decided is named.
  std::string limit_reason, guarantee_reason;
  std::vector<BackTest> checks;
  /// The limit of the newest run, and what is held in reserve above the recommended one: byte-time a month.
  std::optional<Bytes> limit_today;
  ByteTime wasted_a_month;
  TimeMs hours_a_month_ms = 0;
};

/// Inside a transaction of the caller. E1917 for a workload that never ran.
[[nodiscard]] Result<Recommendation> make_recommendation(Database& database, const RecommendQuestion& question);

/// What to type: `ration set` of one that runs, else `ration run` for the next time.
[[nodiscard]] std::string command_of(const Recommendation& recommendation);

/// As `ration recommend` prints it.
[[nodiscard]] std::string to_text(const Recommendation& recommendation, TimeMs now);

}  // namespace ration::history
