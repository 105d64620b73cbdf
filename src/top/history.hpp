// What each row used in the last ten minutes, for its sparkline. Kept by the live view while it runs, filled at the
// start from what the daemon recorded. Promise: a peak that was seen stays visible, however few columns are drawn;
// what was not watched is absent, never 0. Time is an argument: seconds of the wall clock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rows/rows.hpp"

namespace ration::top {

using namespace rows;  // what the live view shows

class History {
 public:
  static constexpr std::int64_t kStep = 10;  ///< seconds
  static constexpr std::size_t kSteps = 60;

  /// Takes up what the rows use at that second, and forgets rows that were not seen for ten minutes.
  void add(const Model& model, std::int64_t now);
  /// Takes up one answer of GET /series by workload that ends at `now`. A workload that is on several devices is left
  /// out unless the answer is of one device. What was seen already stays.
  void fill(const nlohmann::json& series, const Model& model, std::int64_t now);

  /// The maxima of the last ten minutes in that many columns (at most kSteps), oldest first.
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
