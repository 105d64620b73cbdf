// Programs side by side on one GPU: what two recorded runs hold together for every moment at which the second may
// start, and how many copies of one run fit. Promise: the sums are never below those of the recorded charges; a run of
// more than kMostPoints changes is simplified to maxima of longer stretches.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "trace/event.hpp"
#include "trace/whatif/grade.hpp"

namespace ration::trace {

inline constexpr std::size_t kMostPoints = 2048;

/// The bytes that a run holds over time, as steps. The run holds nothing before its beginning and after its end.
struct Curve {
  struct Point {
    std::int64_t begin = 0;  ///< nanoseconds since the run began; the point lasts until the next one
    std::uint64_t bytes = 0;
  };
  std::vector<Point> points;
  std::int64_t length = 0;  ///< nanoseconds
  Bytes peak;
  bool is_simplified = false;

  [[nodiscard]] std::int64_t end(std::size_t point) const {
    return point + 1 < points.size() ? points[point + 1].begin : length;
  }
};

/// Returns the curve of the device on which the run's peak was highest.
[[nodiscard]] Curve curve_of(const Recording& recording);

/// A range of moments at which the second run starts, in nanoseconds after the first one's start.
using Starts = std::pair<std::int64_t, std::int64_t>;

/// Returns the starts of `second` for which the two runs together exceed `size` at some moment, as sorted ranges that
/// do not overlap. They lie between `-second.length` and `first.length`, because with any other start the runs do not
/// overlap.
[[nodiscard]] std::vector<Starts> starts_over(const Curve& first, const Curve& second, Bytes size);

struct Copies {
  std::uint64_t always = 0;  ///< number of copies that fit whenever they start
  /// The fraction of random starts for which one more copy fits, then that for two more copies, and so on, until no
  /// start fits.
  std::vector<double> often;
};

/// Finds how many copies of a run fit on `size`. For random starts, each further copy begins at a random moment of the
/// first copy's run. 1,000 such starts are drawn from a fixed seed.
[[nodiscard]] Copies copies_on(const Curve& run, Bytes size);

}  // namespace ration::trace
