// Names the fields by which rows can be filtered and sorted, as people type them. Used by filter.cpp and order.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rows/rows.hpp"

namespace ration::rows {

enum class FieldKind { kSize, kCount, kDuration, kText, kYesNo };

struct Field {
  const char* name;
  FieldKind kind;
  /// Returns the value: bytes for kSize, seconds for kDuration, 0 or 1 for kYesNo; absent if unknown.
  std::optional<std::uint64_t> (*number)(const Row& row);
  std::string (*text)(const Row& row);
};

[[nodiscard]] const std::vector<Field>& fields();
/// Returns the field of that name; null if there is none.
[[nodiscard]] const Field* field_named(std::string_view name);
/// Returns the names for an error's text: `used, limit, …`.
[[nodiscard]] std::string field_names();

}  // namespace ration::rows
