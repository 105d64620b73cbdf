// Reads the small JSON files of the daemon's state. Used by limits.cpp, leases.cpp, tenants.cpp, schedules.cpp and
// node.cpp, once each, at the start.
// Promises: no file hangs or ends the daemon, whatever lies at its path; what cannot be used is kept beside it, and
// somebody is told.
#pragma once

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace ration::node {

/// Hands what is in the file to `take`, which throws a std::exception where it makes no sense, having changed nothing
/// that outlives it. `path` may be empty, and nothing may lie there: then nothing is done. A damaged one is renamed to
/// PATH.damaged-TIME. Returns what to tell people about that, `lost` in it: what is not known now, and what to do;
/// empty: nothing is to be told.
[[nodiscard]] std::string read_state_file(const std::string& path, const std::string& lost,
                                          const std::function<void(const nlohmann::json& document)>& take);

/// An integer that fits, or std::out_of_range: the library itself takes 1.5, true and -1 for integers.
template <typename Number>
[[nodiscard]] Number whole_number(const nlohmann::json& value) {
  const bool fits =
      value.is_number_unsigned()
          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max())
          : value.is_number_integer() && std::numeric_limits<Number>::is_signed &&
                value.get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<Number>::min());
  if (!fits) throw std::out_of_range("no integer, or one that does not fit");
  return value.get<Number>();
}

}  // namespace ration::node
