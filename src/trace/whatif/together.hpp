// Programs side by side on one GPU: what two recorded runs hold together for every moment at which the second may
// start, and how many copies of one run fit. Promise: the sums are never below those of the recorded charges; runs of
// more than kMostPoints changes are simplified by their maximum.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "trace/event.hpp"
#include "trace/whatif/grade.hpp"

namespace ration::trace {

inline constexpr std::size_t kMostPoints = 2048;

/// What a run holds over time, as steps. It holds nothing before its beginning and after its end.
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

/// Returns what the run held on its device that held most.
[[nodiscard]] Curve curve_of(const Recording& recording);

/// A range of moments at which the second run starts, in nanoseconds after the first one's start.
using Starts = std::pair<std::int64_t, std::int64_t>;

/// Returns the starts of `second` for which both together exceed `size` at some moment, in order and apart from each
/// other. All lie between `-second.length` and `first.length`: at others the runs do not overlap.
[[nodiscard]] std::vector<Starts> starts_over(const Curve& first, const Curve& second, Bytes size);

struct Copies {
  std::uint64_t always = 0;   ///< that many fit whenever they start
  std::vector<double> often;  ///< the share of random starts at which one more fit, two more, …; without zeros
};

/// Finds how many copies of a run fit on `size`. Random starts: each copy begins at a random moment of the first one's
/// run, drawn 1,000 times from a fixed seed.
[[nodiscard]] Copies copies_on(const Curve& run, Bytes size);

}  // namespace ration::trace
