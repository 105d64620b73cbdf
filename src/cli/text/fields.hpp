// Numbers out of the documents that verbs get from the daemon or make themselves.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.hpp"

namespace ration::cli {

/// A field that is there, and is a number of bytes.
inline Bytes bytes_in(const nlohmann::json& row, const char* field) {
  return Bytes{row.at(field).get<std::uint64_t>()};
}

/// Absent: nobody knows it, or the row has no such field.
inline std::optional<Bytes> known_bytes(const nlohmann::json& row, const char* field) {
  const auto found = row.find(field);
  if (found == row.end() || !found->is_number_unsigned()) return std::nullopt;
  return Bytes{found->get<std::uint64_t>()};
}

}  // namespace ration::cli
