// Writes a report for spreadsheets: one line per row with exact amounts. There is no sum line, because a spreadsheet
// adds up the rows itself.
#include <fmt/format.h>

#include "history/export/cells.hpp"
#include "history/export/writers.hpp"

namespace ration::history {

std::string to_csv(const Report& report) {
  CsvRow head;
  for (const char* name :
       {"name", "kind", "basis", "from", "to", "used_byte_seconds", "limit_byte_seconds", "guarantee_byte_seconds",
        "charged_byte_seconds", "charged_gib_hours", "peak_bytes", "efficiency", "denials", "cost", "currency",
        "host_used_byte_seconds", "host_peak_bytes", "host_denials"})
    head.text(name);
  std::string text = head.line();
  for (const ReportRow& row : report.rows) {
    const bool governed = row.kind == Kind::kGoverned;
    CsvRow line;
    line.text(row.name).text(name_of(row.kind)).text(name_of(report.question.basis));
    line.text(rfc3339(report.from)).text(rfc3339(report.to));
    line.number(governed || row.used > ByteTime{} ? byte_seconds(row.used) : std::string());
    line.number(governed ? byte_seconds(row.limited) : std::string());
    line.number(governed ? byte_seconds(row.guaranteed) : std::string());
    line.number(byte_seconds(row.charged)).number(exact_gib_hours(row.charged));
    line.number(governed || row.kind == Kind::kUngoverned ? std::to_string(row.peak) : std::string());
    line.number(row.efficiency ? fmt::format("{:.4f}", *row.efficiency) : std::string()).number(row.denials);
    const bool costed = report.question.prices.any() && row.cost_known();
    line.number(costed ? cents(row.cost_cents) : std::string());
    line.text(costed ? report.question.currency : std::string());
    const auto of_host = [&](auto number) { line.number(row.pinned ? number(*row.pinned) : std::string()); };
    of_host([](const auto& pinned) { return byte_seconds(pinned.used); });
    of_host([](const auto& pinned) { return std::to_string(pinned.peak); });
    of_host([](const auto& pinned) { return std::to_string(pinned.denials); });
    text += line.line();
  }
  return text;
}

}  // namespace ration::history
