// Formats texts and numbers for a cell, a table or a page. Used by the writers in this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "history/amount.hpp"

namespace ration::history {

/// A row of a CSV file (RFC 4180) with its end of line. A text that a spreadsheet would take for a formula (it begins
/// with `=`, `+`, `-`, `@`, a tab or a carriage return) gets a leading apostrophe; numbers, which the writers make
/// themselves, go through number().
class CsvRow {
 public:
  CsvRow& text(const std::string& value);
  CsvRow& number(const std::string& value);
  CsvRow& number(std::int64_t value) { return number(std::to_string(value)); }
  CsvRow& empty() { return number(std::string()); }
  [[nodiscard]] std::string line() const { return row_ + "\r\n"; }

 private:
  void separate();
  std::string row_;
  bool begun_ = false;
};

[[nodiscard]] std::string markdown_cell(const std::string& text);
[[nodiscard]] std::string html_text(const std::string& text);

/// Formats hundredths as `158.73`, `-0.05`.
[[nodiscard]] std::string cents(std::int64_t hundredths);
/// Formats a number with at least three figures and one decimal: `5120.4`, `0.0123`, `8.0`. Only zero becomes `0.0`.
[[nodiscard]] std::string figures(double value);
/// Formats like figures(), but separates thousands: `5 120.4`.
[[nodiscard]] std::string grouped(double value);
/// Formats the product of byte-time and price as a decimal number, to a billionth of the currency.
[[nodiscard]] std::string exact_cost(ByteTime amount, std::int64_t price_nano);
/// Formats GiB·h as a decimal number, to a billionth.
[[nodiscard]] std::string exact_gib_hours(ByteTime amount);

}  // namespace ration::history
