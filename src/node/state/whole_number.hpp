// Reads integers from JSON files of the daemon's state.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ration::node {

/// Returns the integer. Throws std::out_of_range for any other value: the JSON library itself accepts 1.5, true and -1
/// as unsigned.
template <typename Number>
[[nodiscard]] Number whole_number(const nlohmann::json& value) {
  const bool fits =
      value.is_number_unsigned()
          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max())
          : value.is_number_integer() && std::numeric_limits<Number>::is_signed &&
                value.get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<Number>::min());
  if (!fits) throw std::out_of_range("not an integer, or an integer that does not fit");
  return value.get<Number>();
}

}  // namespace ration::node
