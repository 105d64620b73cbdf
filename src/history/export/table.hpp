// The columns, sums and notes of the tables for people. Used by the writers in this folder.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/message.hpp"
#include "history/report.hpp"

namespace ration::history {

enum class Column { kCharged, kUsed, kLimit, kGuarantee, kPeak, kEfficiency, kDenials, kPinned, kPinnedPeak, kCost };
inline constexpr std::size_t kColumns = 10;

struct TableRow {
  std::string name;
  /// The texts by Column; empty for a column that does not apply.
  std::array<std::string, kColumns> cells;
  Kind kind = Kind::kGoverned;

  [[nodiscard]] const std::string& at(Column column) const { return cells[static_cast<std::size_t>(column)]; }
};

/// Returns the columns that this report needs. There is a column for guarantees if they are charged or exist, for costs
/// if there is a price, and for pinned host memory if a row has some.
[[nodiscard]] std::vector<Column> table_columns(const Report& report);
[[nodiscard]] std::string table_head(const Report& report, Column column);
[[nodiscard]] std::vector<TableRow> table_rows(const Report& report);
/// Returns the head of the first column.
[[nodiscard]] std::string table_subject(const Report& report);
/// Returns the sum of the rows as capacity times recorded time: `39.4 GiB × 744 h`.
[[nodiscard]] std::string sum_arithmetic(const Report& report);
/// Returns why the row has no figures of pinned host memory.
[[nodiscard]] const char* why_no_pinned(const Report& report, const ReportRow& row);
[[nodiscard]] TableRow table_sum(const Report& report);
/// Returns the notes below the table: basis, missing records, gaps, missing prices, seal, and whether the rows add up.
[[nodiscard]] std::vector<Message> table_notes(const Report& report);

}  // namespace ration::history
