#include "history/export/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>

#include "base/say.hpp"
#include "base/units.hpp"
#include "history/export/cells.hpp"

namespace ration::history {
namespace {

std::string gib(std::int64_t bytes) { return figures(static_cast<double>(bytes) / (1 << 30)); }

/// Formats a time in hours, with enough decimals to multiply it with the capacity.
std::string hours(TimeMs ms) {
  if (ms % kHourMs == 0) return fmt::format("{} h", ms / kHourMs);
  std::string text = fmt::format("{:.6f}", static_cast<double>(ms) / kHourMs);
  while (text.back() == '0') text.pop_back();
  return text + " h";
}

std::string cost_of(const Report& report, const ReportRow& row) {
  if (!report.question.prices.any()) return {};
  return row.cost_known() ? cents(row.cost_cents) + " " + report.question.currency : "n/a (no price)";
}

std::string cost_of_all(const Report& report) {
  if (!report.question.prices.any()) return {};
  if (!report.cost_known) return "n/a (no price)";
  std::string text = cents(report.cost_cents) + " " + report.question.currency;
  if (report.unpriced_rows != 0) text += fmt::format(" + {} without a price", counted(report.unpriced_rows, "row"));
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

std::chrono::nanoseconds nanoseconds_of(TimeMs ms) { return std::chrono::milliseconds(ms); }

Message meaning_of(Basis basis) {
  switch (basis) {
    case Basis::kUsed:
      return fixed<"report.basis_used">();
    case Basis::kLimit:
      return fixed<"report.basis_limit">();
    case Basis::kGuarantee:
      return fixed<"report.basis_guarantee">();
    case Basis::kMaxUsedGuarantee:
      return fixed<"report.basis_max">();
    default:
      return fixed<"report.basis_peak">();
  }
}

/// Notes the parts of the window that no row shows, because no daemon was running.
void note_record(const Report& report, std::vector<Message>& notes) {
  const Message problem = report.question.problem;
  if (!report.recorded_from) {
    notes.push_back(
        say<"report.nothing_recorded">("problem"_is(problem.empty() ? Message(fixed<"report.no_daemon">()) : problem)));
    return;
  }
  if (!problem.empty()) notes.push_back(say<"report.not_recording">("problem"_is(problem)));
  notes.push_back(report.adds_up ? fixed<"report.adds_up">() : fixed<"report.contradiction">());
  const TimeMs before = *report.recorded_from - report.from;
  if (before <= 0) return;
  notes.push_back(say<"report.recorded_from">(
      "from"_is(rfc3339(*report.recorded_from)),
      "because"_is(report.pruned ? fixed<"report.before_pruned">() : fixed<"report.before_no_daemon">()),
      "missing_seconds"_is(nanoseconds_of(std::max(before, kSecondMs)))));
}

void note_prices(const Report& report, std::vector<Message>& notes) {
  if (!report.question.prices.any()) return;
  if (report.unpriced_rows != 0) notes.push_back(say<"report.unpriced">("count"_is(report.unpriced_rows)));
  if (report.partly_priced_rows != 0)
    notes.push_back(say<"report.partly_priced">("count"_is(report.partly_priced_rows)));
}

bool has_pinned(const ReportRow& row) { return row.pinned && row.pinned->peak > 0; }

/// Notes what is known about pinned host memory, if a row has figures of it.
void note_pinned(const Report& report, std::vector<Message>& notes) {
  if (std::ranges::none_of(report.rows, has_pinned)) return;
  notes.push_back(fixed<"report.pinned">());
  const auto lacking =
      std::ranges::count_if(report.rows, [](const ReportRow& row) { return row.pinned && row.pinned_lacks; });
  if (lacking != 0) notes.push_back(say<"report.pinned_partly">("count"_is(lacking)));
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

std::vector<Message> table_notes(const Report& report) {
  std::vector<Message> notes;
  const Basis basis = report.question.basis;
  notes.push_back(say<"report.window">("from"_is(rfc3339(report.from)), "to"_is(rfc3339(report.to)),
                                       "basis"_is(name_of(basis)), "meaning"_is(meaning_of(basis))));
  note_record(report, notes);
  TimeMs lost = 0;
  for (const Gap& gap : report.gaps) lost += gap.to - gap.from;
  if (!report.gaps.empty())
    notes.push_back(say<"report.gaps">("count"_is(report.gaps.size()), "lost_seconds"_is(nanoseconds_of(lost))));
  note_prices(report, notes);
  note_pinned(report, notes);
  if (report.closed) {
    const std::string closed = rfc3339(report.closed->closed);
    notes.push_back(report.closed->intact ? say<"report.closed">("period"_is(report.period), "closed"_is(closed),
                                                                 "seal"_is(report.closed->seal))
                                          : say<"report.seal_broken">("period"_is(report.period), "closed"_is(closed),
                                                                      "seal"_is(report.closed->seal)));
  }
  return notes;
}

}  // namespace ration::history
