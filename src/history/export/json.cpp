// Writes the Usage report of docs/http-api.md.
#include "history/export/table.hpp"
#include "history/export/writers.hpp"

namespace ration::history {

nlohmann::json to_json(const Report& report) {
  using nlohmann::json;
  json rows = json::array();
  for (const ReportRow& row : report.rows) {
    json line = {{"name", row.name},
                 {"kind", name_of(row.kind)},
                 {"charged_byte_seconds", byte_seconds(row.charged)},
                 {"charged_gib_hours", gib_hours(row.charged)},
                 {"denials", row.denials}};
    const auto known = [&](const char* field, bool has, json value, const char* reason) {
      line[field] = has ? std::move(value) : json(nullptr);
      if (!has) line[std::string(field) + "_na"] = reason;
    };
    const bool governed = row.kind == Kind::kGoverned;
    const bool used = governed || row.kind == Kind::kUngoverned || row.kind == Kind::kDriver;
    known("used_byte_seconds", used, byte_seconds(row.used), "nobody's");
    known("limit_byte_seconds", governed, byte_seconds(row.limited), "not governed");
    known("guarantee_byte_seconds", governed, byte_seconds(row.guaranteed), "not governed");
    known("peak_bytes", governed || row.kind == Kind::kUngoverned, row.peak, "not measured");
    known("efficiency", row.efficiency.has_value(), row.efficiency.value_or(0), "no limit was set");
    const ReportRow::Pinned pinned = row.pinned.value_or(ReportRow::Pinned{});
    const char* const uncounted = why_no_pinned(report, row);
    known("host_used_byte_seconds", row.pinned.has_value(), byte_seconds(pinned.used), uncounted);
    known("host_peak_bytes", row.pinned.has_value(), pinned.peak, uncounted);
    known("host_denials", row.pinned.has_value(), pinned.denials, uncounted);
    if (row.pinned && row.pinned_lacks) line["host_partial"] = true;
    const bool any = report.question.prices.any();
    known("cost", any && row.cost_known(), static_cast<double>(row.cost_cents) / 100,
          any ? "no price" : "no price is set");
    if (row.priced && row.unpriced) line["cost_partial"] = true;
    if (!row.device.empty()) line["device"] = row.device;
    if (row.shared_idle > ByteTime{}) line["shared_idle_byte_seconds"] = byte_seconds(row.shared_idle);
    rows.push_back(std::move(line));
  }
  json gaps = json::array();
  for (const Gap& gap : report.gaps) gaps.push_back({{"from", rfc3339(gap.from)}, {"to", rfc3339(gap.to)}});
  json notes = json::array(), messages = json::array();
  for (const Message& note : table_notes(report)) {
    notes.push_back(note);
    messages.push_back(json::parse(note.json()));
  }
  json document = {{"by", name_of_by(report.question)},
                   {"basis", name_of(report.question.basis)},
                   {"from", rfc3339(report.from)},
                   {"to", rfc3339(report.to)},
                   {"currency", report.question.currency},
                   {"rows", std::move(rows)},
                   {"sum_byte_seconds", byte_seconds(report.sum)},
                   {"capacity_byte_seconds", byte_seconds(report.capacity)},
                   {"adds_up", report.adds_up},
                   {"sum_text", sum_arithmetic(report)},
                   {"notes", std::move(notes)},
                   {"notes_messages", std::move(messages)},
                   {"recorded_from", nullptr},
                   {"gaps", std::move(gaps)},
                   {"period", report.period.empty() ? json(nullptr) : json(report.period)},
                   {"closed", nullptr},
                   {"seal", nullptr}};
  if (report.period.empty()) document["period_na"] = "the window is not one month";
  if (report.recorded_from)
    document["recorded_from"] = rfc3339(*report.recorded_from);
  else
    document["recorded_from_na"] = "nothing is recorded in this window";
  if (report.cost_known) document["cost"] = static_cast<double>(report.cost_cents) / 100;
  if (report.question.prices.any()) document["unpriced_rows"] = report.unpriced_rows;
  if (report.closed) {
    document["closed"] = rfc3339(report.closed->closed);
    document["seal"] = report.closed->seal;
    document["seal_intact"] = report.closed->intact;
  }
  return document;
}

}  // namespace ration::history
