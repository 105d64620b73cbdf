// Reads lines over time for charts. Used by the HTTP interface (docs/http-api.md, Series). Promises: a recorded maximum
// is in the bucket of its time, however coarse the buckets are; time that was not recorded has no value, never 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "history/charges.hpp"
#include "history/database.hpp"

namespace ration::history {

struct SeriesQuestion {
  enum class By { kDevice, kTenant, kWorkload } by = By::kTenant;
  /// The device. Empty for all devices: with kDevice, each has a line of its own; otherwise lines of the same name are
  /// added up.
  std::string uuid;
  /// The name of the only line; empty for all.
  std::string name;
  TimeMs from = 0, to = 0;
  /// The maximum number of buckets.
  std::int64_t points = 600;
};

struct SeriesLine {
  /// The tenant, `tenant/workload` or the UUID.
  std::string name;
  std::vector<std::optional<std::int64_t>> maximum, average, limit;
};

struct DenialMark {
  TimeMs time = 0;
  std::int64_t event = 0;
  std::string name;
};

struct Series {
  TimeMs from = 0, to = 0, step = 0;
  std::vector<SeriesLine> lines;
  std::vector<DenialMark> denials;
  std::vector<Gap> gaps;
  std::int64_t capacity = 0;
};

/// Makes the series. Requires that the caller has begun a transaction. Fails with E1916 for an empty window.
[[nodiscard]] Result<Series> make_series(Database& database, const SeriesQuestion& question);

}  // namespace ration::history
