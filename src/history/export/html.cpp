// A report as one page: opens offline, prints well, readable without colours.
#include <fmt/format.h>

#include <algorithm>

#include "history/export/cells.hpp"
#include "history/export/table.hpp"
#include "history/export/writers.hpp"

namespace ration::history {
namespace {

constexpr const char* kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>ration: GPU memory by )html";

constexpr const char* kStyle = R"html(</title><style>
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#c9ced6;--bar:#0072b2;--other:#767c86}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--paper:#14171b;--line:#3a414b;--bar:#56b4e9;--other:#8b929d}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}
tfoot td{font-weight:600;border-top:2px solid var(--ink)}
.share{min-width:8rem}.share span{display:block;height:.8rem;background:var(--bar)}.share .none{background:var(--other)}
div.wide{overflow-x:auto}
</style></head><body><main>
)html";

}  // namespace

std::string to_html(const Report& report) {
  const std::vector<Column> columns = table_columns(report);
  const std::string subject = html_text(table_subject(report));
  const std::string days = rfc3339(report.from).substr(0, 10) + " to " + rfc3339(report.to).substr(0, 10);
  std::string text = kHead + html_text(name_of_by(report.question)) + ", " + days + kStyle;
  text += "<h1>GPU memory by " + html_text(name_of_by(report.question)) + "</h1>\n<p>" + days + "</p>\n";
  text +=
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"usage\"><table>\n<thead><tr><th scope=\"col\">" +
      subject + "</th>";
  for (const Column column : columns) text += "<th scope=\"col\">" + html_text(table_head(report, column)) + "</th>";
  text += "<th scope=\"col\">share</th></tr></thead>\n<tbody>\n";
  const auto rows = table_rows(report);
  const auto whole = static_cast<double>(report.capacity.byte_ms());
  for (std::size_t place = 0; place < rows.size(); ++place) {
    const TableRow& row = rows[place];
    text += "<tr><td>" + html_text(row.name) + "</td>";
    for (const Column column : columns) text += "<td>" + html_text(row.at(column)) + "</td>";
    const double share = whole > 0 ? static_cast<double>(report.rows[place].charged.byte_ms()) * 100 / whole : 0;
    text += fmt::format(
        "<td class=\"share\" title=\"{0} byte-seconds\">{1:.1f}%<span{2} style=\"width:{3:.1f}%\"></span></td></tr>\n",
        byte_seconds(report.rows[place].charged), share, row.kind == Kind::kGoverned ? "" : " class=\"none\"",
        std::clamp(share, 0.0, 100.0));
  }
  const TableRow sum = table_sum(report);
  text += "</tbody>\n<tfoot><tr><td>" + html_text(sum.name) + "</td>";
  for (const Column column : columns) text += "<td>" + html_text(sum.at(column)) + "</td>";
  text += "<td></td></tr></tfoot></table></div>\n";
  for (const std::string& note : table_notes(report)) text += "<p>" + html_text(note) + "</p>\n";
  return text + "</main></body></html>\n";
}

}  // namespace ration::history
