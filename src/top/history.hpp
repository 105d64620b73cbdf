// The use of each row, of each tenant on each device and of each device in the last ten minutes, for sparklines and
// charts. Kept by the live view while it runs, and filled at the start from the daemon's records. Promises that a peak
// stays visible however few columns are drawn, and that a step without samples is absent, never 0. Times are seconds of
// the wall clock.
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

/// Use in steps of kStep seconds.
class History {
 public:
  static constexpr std::int64_t kStep = 10;  ///< seconds
  static constexpr std::size_t kSteps = 60;

  /// Records what is used at that second, and forgets what was absent for ten minutes.
  void add(const Model& model, std::int64_t now);
  /// Adds an answer of `GET /series` whose last step is at `now`. Skips a workload on several devices, a tenant and a
  /// device, unless the answer is for one device. Keeps what was recorded already.
  void fill(const nlohmann::json& series, const Model& model, std::int64_t now);

  /// The maxima of the last ten minutes, one for each column, oldest first.
  using Maxima = std::vector<std::optional<Bytes>>;
  [[nodiscard]] Maxima of_row(const std::string& key, int columns, std::int64_t now) const;
  [[nodiscard]] Maxima of_device(int gpu, int columns, std::int64_t now) const;
  /// Returns the maxima of each tenant that used the device.
  [[nodiscard]] std::map<std::string, Maxima> of_tenants(int gpu, int columns, std::int64_t now) const;

  /// Returns the column of a second, of that many columns; absent if it is not in the last ten minutes.
  [[nodiscard]] static std::optional<int> column_of(std::int64_t second, int columns, std::int64_t now);

 private:
  struct Line {
    std::int64_t newest = 0;  ///< number of the newest step
    std::array<std::optional<Bytes>, kSteps> steps;

    void advance(std::int64_t step);
    void put(std::int64_t step, Bytes used);
    [[nodiscard]] Maxima maxima(int columns, std::int64_t now) const;
  };
  std::map<std::string, Line> rows_;
  std::map<int, Line> devices_;
  std::map<int, std::map<std::string, Line>> tenants_;  // by device
};

}  // namespace ration::top
