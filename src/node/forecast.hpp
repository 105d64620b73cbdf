// When a device will be full if its use goes on growing as it did. Used by the daemon. Promise: no forecast without a
// steady growth over minutes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.hpp"

namespace ration::node {

class Forecast {
 public:
  /// One look at a device.
  void note(const std::string& uuid, Bytes used, std::uint64_t now_ns);
  /// Absent: its use does not grow, or is not known for long enough.
  [[nodiscard]] std::optional<std::uint64_t> seconds_to_full(const std::string& uuid, Bytes free) const;

 private:
  static constexpr std::uint64_t kStepNs = 5'000'000'000, kSpanNs = 600'000'000'000, kLeastNs = 60'000'000'000;
  std::map<std::string, std::deque<std::pair<std::uint64_t, std::uint64_t>>> seen_;  // time, bytes
};

}  // namespace ration::node
