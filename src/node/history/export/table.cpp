#include "node/history/export/table.hpp"

#include <fmt/format.h>

#include <cctype>

#include "base/units.hpp"
#include "node/history/export/cells.hpp"

namespace ration::history {
namespace {

std::string money(const Report& report, std::int64_t hundredths) {
  return !report.question.prices.any() ? std::string() : cents(hundredths) + " " + report.question.currency;
}

}  // namespace

std::vector<TableRow> table_rows(const Report& report) {
  std::vector<TableRow> rows;
  for (const ReportRow& row : report.rows) {
    const bool governed = row.kind == Kind::kGoverned;
    const bool peaked = governed || row.kind == Kind::kUngoverned;
    TableRow line{row.name, {}, row.kind};
    line.cells = {grouped(gib_hours(row.charged)),
                  governed || row.used > ByteTime{} ? grouped(gib_hours(row.used)) : std::string(),
                  governed ? grouped(gib_hours(row.limited)) : std::string(),
                  peaked ? fmt::format("{:.1f}", static_cast<double>(row.peak) / (1 << 30)) : std::string(),
                  row.efficiency ? fmt::format("{:.0f}%", *row.efficiency * 100) : std::string(),
                  governed ? std::to_string(row.denials) : std::string(),
                  money(report, row.cost_cents)};
    rows.push_back(std::move(line));
  }
  return rows;
}

std::string table_subject(const Report& report) {
  std::string subject = name_of_by(report.question);
  subject[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(subject[0])));
  return subject;
}

TableRow table_sum(const Report& report) {
  TableRow sum;
  const double hours = static_cast<double>(report.to - report.from) / kHourMs;
  const double whole = gib_hours(report.capacity);
  sum.name = hours > 0 ? fmt::format("sum = {:.1f} GiB × {:.0f} h", whole / hours, hours) : std::string("sum");
  sum.cells[0] = grouped(gib_hours(report.sum));
  sum.cells[6] = money(report, report.cost_cents);
  return sum;
}

std::vector<std::string> table_notes(const Report& report) {
  std::vector<std::string> notes;
  const char* meaning = "";
  switch (report.question.basis) {
    case Basis::kUsed:
      meaning = "integral of bytes held over time";
      break;
    case Basis::kLimit:
      meaning = "integral of the limit over time, held or not";
      break;
    case Basis::kGuarantee:
      meaning = "integral of the guarantee over time, held or not";
      break;
    case Basis::kMaxUsedGuarantee:
      meaning = "integral of the larger of bytes held and guarantee";
      break;
    case Basis::kPeak:
      meaning = "the most held in each hour, for the time it ran in that hour";
      break;
  }
  notes.push_back(fmt::format("{} to {}. Basis {}: {}.", rfc3339(report.from), rfc3339(report.to),
                              name_of(report.question.basis), meaning));
  notes.push_back(report.adds_up ? "The lines add up to capacity × time exactly."
                                 : "THE LINES DO NOT ADD UP: the history contradicts itself (ration doctor).");
  TimeMs lost = 0;
  for (const Gap& gap : report.gaps) lost += gap.to - gap.from;
  if (!report.gaps.empty()) {
    notes.push_back(fmt::format("Gaps: {} ({}), charged to nobody.", report.gaps.size(),
                                format_duration(static_cast<std::uint64_t>(lost) * 1'000'000)));
  }
  if (report.closed) {
    notes.push_back(fmt::format("Period {} closed {}, seal {}{}.", report.period, rfc3339(report.closed->closed),
                                report.closed->seal, report.closed->intact ? "" : " - WHICH NO LONGER FITS ITS LINES"));
  }
  for (const Adjustment& change : report.adjustments) {
    notes.push_back(fmt::format("Adjustment {} to {}: {} {} GiB·h - {} ({}, {}).", change.id, change.period,
                                change.tenant, exact_gib_hours(change.amount), change.reason, change.by,
                                rfc3339(change.made)));
  }
  return notes;
}

}  // namespace ration::history
