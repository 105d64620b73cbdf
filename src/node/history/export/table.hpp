// The columns that Markdown and the page share. Used by the two writers beside this.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "node/history/report.hpp"

namespace ration::history {

struct TableRow {
  std::string name;
  /// GiB·h charged, used, limit, peak GiB, efficiency, denials, cost; empty where it has no meaning.
  std::array<std::string, 7> cells;
  Kind kind = Kind::kGoverned;
};

inline constexpr std::array<const char*, 7> kTableHeads{"GiB·h charged", "GiB·h used", "GiB·h limit", "peak GiB",
                                                        "efficiency",    "denials",    "cost"};

[[nodiscard]] std::vector<TableRow> table_rows(const Report& report);
/// Head of the first column.
[[nodiscard]] std::string table_subject(const Report& report);
/// `sum = 39.4 GiB × 744 h`, or of the capacity of several devices.
[[nodiscard]] TableRow table_sum(const Report& report);
/// What is to be read below the table: basis, gaps, seal, adjustments, whether it adds up.
[[nodiscard]] std::vector<std::string> table_notes(const Report& report);

}  // namespace ration::history
