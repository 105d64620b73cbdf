#include "history/export/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/units.hpp"
#include "history/export/cells.hpp"

namespace ration::history {
namespace {

std::string gib(std::int64_t bytes) { return figures(static_cast<double>(bytes) / (1 << 30)); }

std::string duration(TimeMs ms) { return format_duration(static_cast<std::uint64_t>(ms) * 1'000'000); }

/// Formats a time in hours, with enough decimals to multiply it with the capacity.
std::string hours(TimeMs ms) {
  if (ms % kHourMs == 0) return fmt::format("{} h", ms / kHourMs);
  std::string text = fmt::format("{:.6f}", static_cast<double>(ms) / kHourMs);
  while (text.back() == '0') text.pop_back();
  return text + " h";
}

std::string number_of(std::size_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string cost_of(const Report& report, const ReportRow& row) {
  if (!report.question.prices.any()) return {};
  return row.cost_known() ? cents(row.cost_cents) + " " + report.question.currency : "n/a (no price)";
}

std::string cost_of_all(const Report& report) {
  if (!report.question.prices.any()) return {};
  if (!report.cost_known) return "n/a (no price)";
  std::string text = cents(report.cost_cents) + " " + report.question.currency;
  if (report.unpriced_rows != 0)
    text += fmt::format(" + {} without a price", number_of(report.unpriced_rows, "row", "rows"));
  return text;
}

TableRow table_row(const Report& report, const ReportRow& row) {
  const bool governed = row.kind == Kind::kGoverned;
  const auto of_governed = [&](ByteTime amount) { return governed ? grouped(gib_hours(amount)) : std::string(); };
  const auto of_pinned = [&](const std::string& figure) {
    return row.pinned ? figure : governed ? fmt::format("n/a ({})", why_no_pinned(report, row)) : std::string();
  };
  const ReportRow::Pinned pinned = row.pinned.value_or(ReportRow::Pinned{});
  TableRow line{row.name, {}, row.kind};
  line.cells = {grouped(gib_hours(row.charged)),
                governed || row.used > ByteTime{} ? grouped(gib_hours(row.used)) : std::string(),
                of_governed(row.limited),
                of_governed(row.guaranteed),
                governed || row.kind == Kind::kUngoverned ? gib(row.peak) : std::string(),
                row.efficiency ? fmt::format("{:.0f}%", *row.efficiency * 100) : std::string(),
                governed ? std::to_string(row.denials) : std::string(),
                of_pinned(grouped(gib_hours(pinned.used))),
                of_pinned(gib(pinned.peak)),
                cost_of(report, row)};
  return line;
}

const char* meaning_of(Basis basis) {
  switch (basis) {
    case Basis::kUsed:
      return "integral of bytes held over time";
    case Basis::kLimit:
      return "integral of the limit over time, held or not";
    case Basis::kGuarantee:
      return "integral of the guarantee over time, held or not";
    case Basis::kMaxUsedGuarantee:
      return "integral of the larger of bytes held and guarantee";
    default:
      return "the most held in each hour, for the time it ran in that hour";
  }
}

/// Notes the parts of the window that no row shows, because no daemon was running.
void note_record(const Report& report, std::vector<std::string>& notes) {
  const std::string& problem = report.question.problem;
  if (!report.recorded_from) {
    notes.push_back("Nothing is recorded in this window: " +
                    (problem.empty() ? "the daemon was not running, so there is nothing to add up." : problem));
    return;
  }
  if (!problem.empty()) notes.push_back("Nothing is being recorded now: " + problem);
  notes.push_back(report.adds_up ? "The lines add up to capacity × recorded time exactly."
                                 : "THE LINES DO NOT ADD UP: the history contradicts itself (ration doctor).");
  const TimeMs before = *report.recorded_from - report.from;
  if (before <= 0) return;
  notes.push_back(
      fmt::format("Recorded from {} on; {}: {} of the window are not in the sum.", rfc3339(*report.recorded_from),
                  report.pruned ? "what was before is no longer kept" : "before that the daemon was not running",
                  before < kSecondMs ? fmt::format("{} ms", before) : duration(before)));
}

void note_prices(const Report& report, std::vector<std::string>& notes) {
  if (!report.question.prices.any()) return;
  if (report.unpriced_rows != 0)
    notes.push_back(
        fmt::format("{} no price and {} not in the cost (ration.toml: [report] price, or [[tenant]] price).",
                    number_of(report.unpriced_rows, "row has", "rows have"), report.unpriced_rows == 1 ? "is" : "are"));
  if (report.partly_priced_rows != 0)
    notes.push_back(fmt::format("Of {} only a part has a price: the cost is that of the part.",
                                number_of(report.partly_priced_rows, "row", "rows")));
}

bool has_pinned(const ReportRow& row) { return row.pinned && row.pinned->peak > 0; }

/// Notes what is known about pinned host memory, if a row has figures of it.
void note_pinned(const Report& report, std::vector<std::string>& notes) {
  if (std::ranges::none_of(report.rows, has_pinned)) return;
  notes.push_back("Pinned host memory is on no GPU: it is in no sum and costs nothing.");
  const auto lacking =
      std::ranges::count_if(report.rows, [](const ReportRow& row) { return row.pinned && row.pinned_lacks; });
  if (lacking != 0)
    notes.push_back(fmt::format("Pinned host memory of {} was counted for a part of the time.",
                                number_of(static_cast<std::size_t>(lacking), "row", "rows")));
}

}  // namespace

std::vector<Column> table_columns(const Report& report) {
  const Basis basis = report.question.basis;
  bool guaranteed = basis == Basis::kGuarantee || basis == Basis::kMaxUsedGuarantee;
  for (const ReportRow& row : report.rows) guaranteed = guaranteed || row.guaranteed > ByteTime{};
  std::vector<Column> columns{Column::kCharged, Column::kUsed, Column::kLimit};
  if (guaranteed) columns.push_back(Column::kGuarantee);
  columns.insert(columns.end(), {Column::kPeak, Column::kEfficiency, Column::kDenials});
  if (std::ranges::any_of(report.rows, has_pinned))
    columns.insert(columns.end(), {Column::kPinned, Column::kPinnedPeak});
  if (report.question.prices.any()) columns.push_back(Column::kCost);
  return columns;
}

std::string table_head(const Report& report, Column column) {
  constexpr std::array<const char*, kColumns> kHeads{"GiB·h charged",   "GiB·h used", "GiB·h limit", "GiB·h guarantee",
                                                     "peak GiB",        "efficiency", "denials",     "GiB·h pinned",
                                                     "pinned peak GiB", "cost"};
  const std::string head = kHeads[static_cast<std::size_t>(column)];
  return column == Column::kCharged ? head + " (" + name_of(report.question.basis) + ")" : head;
}

std::vector<TableRow> table_rows(const Report& report) {
  std::vector<TableRow> rows;
  for (const ReportRow& row : report.rows) rows.push_back(table_row(report, row));
  return rows;
}

std::string table_subject(const Report& report) {
  if (report.question.by == By::kGpu) return "GPU";
  std::string subject = name_of_by(report.question);
  subject[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(subject[0])));
  return subject;
}

std::string sum_arithmetic(const Report& report) {
  constexpr std::size_t kReadable = 3;
  if (report.terms.empty() || report.terms.size() > kReadable) return "capacity × recorded time";
  std::string text;
  for (const SumTerm& term : report.terms)
    text += fmt::format("{}{} GiB × {}", text.empty() ? "" : " + ", gib(term.capacity), hours(term.ms));
  return text;
}

const char* why_no_pinned(const Report& report, const ReportRow& row) {
  if (row.kind != Kind::kGoverned) return "not governed";
  return report.question.by == By::kGpu ? "on no GPU" : "not counted";
}

TableRow table_sum(const Report& report) {
  TableRow sum;
  sum.name = report.recorded_from ? "sum = " + sum_arithmetic(report) : std::string("sum");
  sum.cells[static_cast<std::size_t>(Column::kCharged)] = grouped(gib_hours(report.sum));
  sum.cells[static_cast<std::size_t>(Column::kCost)] = cost_of_all(report);
  return sum;
}

std::vector<std::string> table_notes(const Report& report) {
  std::vector<std::string> notes;
  notes.push_back(fmt::format("{} to {}. Basis {}: {}.", rfc3339(report.from), rfc3339(report.to),
                              name_of(report.question.basis), meaning_of(report.question.basis)));
  note_record(report, notes);
  TimeMs lost = 0;
  for (const Gap& gap : report.gaps) lost += gap.to - gap.from;
  if (!report.gaps.empty()) {
    notes.push_back(fmt::format("Gaps: {} ({}), not charged.", report.gaps.size(), duration(lost)));
  }
  note_prices(report, notes);
  note_pinned(report, notes);
  if (report.closed) {
    notes.push_back(fmt::format("Period {} closed {}, seal {}{}.", report.period, rfc3339(report.closed->closed),
                                report.closed->seal, report.closed->intact ? "" : " - WHICH NO LONGER FITS ITS LINES"));
  }
  return notes;
}

}  // namespace ration::history
