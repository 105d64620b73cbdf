// Writes a report as a table for a wiki or a mail.
#include "history/export/cells.hpp"
#include "history/export/table.hpp"
#include "history/export/writers.hpp"

namespace ration::history {

std::string to_markdown(const Report& report) {
  const std::vector<Column> columns = table_columns(report);
  std::string text = "| " + markdown_cell(table_subject(report)) + " |";
  std::string rule = "|:--|";
  for (const Column column : columns) {
    text += " " + markdown_cell(table_head(report, column)) + " |";
    rule += "--:|";
  }
  text += "\n" + rule + "\n";
  const auto enter = [&](const TableRow& row, const std::string& strong) {
    text += "| " + strong + markdown_cell(row.name) + strong + " |";
    for (const Column column : columns)
      text += row.at(column).empty() ? " |" : " " + strong + markdown_cell(row.at(column)) + strong + " |";
    text += "\n";
  };
  for (const TableRow& row : table_rows(report)) enter(row, "");
  enter(table_sum(report), "**");
  text += "\n";
  for (const std::string& note : table_notes(report)) text += markdown_cell(note) + "  \n";
  return text;
}

}  // namespace ration::history
