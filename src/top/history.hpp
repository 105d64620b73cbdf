// The use of each row in the last ten minutes, for its sparkline. Kept by the live view while it runs, and filled at
// the start from the daemon's records. Promises that a peak stays visible however few columns are drawn, and that a
// step without samples is absent, never 0. Times are seconds of the wall clock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rows/rows.hpp"

namespace ration::top {

using namespace rows;  // the live view shows rows

/// The use of rows in steps of kStep seconds.
class History {
 public:
  static constexpr std::int64_t kStep = 10;  ///< seconds
  static constexpr std::size_t kSteps = 60;

  /// Records the use of the rows at that second, and forgets rows that were absent for ten minutes.
  void add(const Model& model, std::int64_t now);
  /// Adds an answer of `GET /series?by=workload` whose last step is at `now`. Skips a workload on several devices,
  /// unless the answer is for one device. Keeps what was recorded already.
  void fill(const nlohmann::json& series, const Model& model, std::int64_t now);

  /// Returns the maxima of the last ten minutes in that many columns (at most kSteps), oldest first.
  [[nodiscard]] std::vector<std::optional<Bytes>> last(const std::string& row, int columns, std::int64_t now) const;

 private:
  struct Line {
    std::int64_t newest = 0;  ///< number of the newest step
    std::array<std::optional<Bytes>, kSteps> steps;

    void advance(std::int64_t step);
    void put(std::int64_t step, Bytes used);
  };
  std::map<std::string, Line> lines_;
};

}  // namespace ration::top
