// A histogram of waits, in the form that Prometheus expects.
// Promise: counts only grow; each bucket counts all waits up to its bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace ration::node {

struct WaitHistogram {
  static constexpr double kBounds[] = {1, 10, 60, 300, 1800, 7200};  ///< seconds
  std::uint64_t within[std::size(kBounds)] = {};
  std::uint64_t count = 0;
  double seconds = 0;

  void note(double waited_seconds) noexcept {
    for (std::size_t i = 0; i < std::size(kBounds); ++i) within[i] += waited_seconds <= kBounds[i] ? 1 : 0;
    ++count;
    seconds += waited_seconds;
  }
};

}  // namespace ration::node
