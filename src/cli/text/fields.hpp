// Reads numbers of bytes from JSON documents. Used by verbs for the daemon's answers and for documents that the verbs
// build.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.hpp"

namespace ration::cli {

/// Returns the bytes in a field that must be present and a number.
inline Bytes bytes_in(const nlohmann::json& row, const char* field) {
  return Bytes{row.at(field).get<std::uint64_t>()};
}

/// Returns the bytes in a field; absent if the field is missing or null.
inline std::optional<Bytes> known_bytes(const nlohmann::json& row, const char* field) {
  const auto found = row.find(field);
  if (found == row.end() || !found->is_number_unsigned()) return std::nullopt;
  return Bytes{found->get<std::uint64_t>()};
}

/// Returns a limit for a document; null if there is none.
inline nlohmann::json limit_field(Bytes limit) {
  return limit < kUnlimited ? nlohmann::json(limit.count()) : nlohmann::json(nullptr);
}

}  // namespace ration::cli
