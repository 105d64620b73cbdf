// What rows can be filtered and sorted by, under the names that people type. Used by filter.cpp and order.cpp.
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
  /// Of kSize in bytes, of kDuration in seconds, of kYesNo 0 or 1; absent: unknown.
  std::optional<std::uint64_t> (*number)(const Row& row);
  std::string (*text)(const Row& row);
};

[[nodiscard]] const std::vector<Field>& fields();
/// Null: there is none of that name.
[[nodiscard]] const Field* field_named(std::string_view name);
/// `used, limit, …`: for an error's text.
[[nodiscard]] std::string field_names();

}  // namespace ration::rows
