#include "history/export/cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ration::history {
namespace {

// Formats numerator / billionths_of with at most nine decimals, rounded to the nearest.
std::string decimal(__int128 numerator, __int128 billionths_of) {
  const bool negative = numerator < 0;
  if (negative) numerator = -numerator;
  __int128 whole = numerator / billionths_of;
  // The remainder is below 2^62, so 10^9 times it fits.
  __int128 fraction = (numerator % billionths_of * 1'000'000'000 + billionths_of / 2) / billionths_of;
  if (fraction == 1'000'000'000) fraction = 0, ++whole;
  std::string text = fmt::format("{}", static_cast<std::uint64_t>(whole));
  if (fraction != 0) {
    text += fmt::format(".{:09}", static_cast<std::uint64_t>(fraction));
    while (text.back() == '0') text.pop_back();
  }
  return negative && (whole != 0 || fraction != 0) ? "-" + text : text;
}

}  // namespace

void CsvRow::separate() {
  if (begun_) row_ += ',';
  begun_ = true;
}

CsvRow& CsvRow::text(const std::string& value) {
  separate();
  const bool formula = !value.empty() && std::string("=+-@\t\r").find(value[0]) != std::string::npos;
  if (!formula && value.find_first_of(",\"\r\n") == std::string::npos) {
    row_ += value;
    return *this;
  }
  row_ += formula ? "\"'" : "\"";
  for (const char letter : value) row_ += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  row_ += '"';
  return *this;
}

CsvRow& CsvRow::number(const std::string& value) {
  separate();
  row_ += value;
  return *this;
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char letter : text) {
    if (letter == '\n' || letter == '\r') {
      cell += ' ';
    } else if (letter == '<') {
      cell += "&lt;";
    } else if (letter == '&') {
      cell += "&amp;";
    } else {
      if (std::string("\\`*_[]|#~>!").find(letter) != std::string::npos) cell += '\\';
      cell += letter;
    }
  }
  return cell;
}

std::string html_text(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string cents(std::int64_t hundredths) {
  const std::int64_t size = hundredths < 0 ? -hundredths : hundredths;
  return fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "", size / 100, size % 100);
}

std::string figures(double value) {
  constexpr int kMaxDigits = 9;
  const double size = std::abs(value);
  const int decimals =
      size == 0 || size >= 10 ? 1 : std::min(kMaxDigits, 2 - static_cast<int>(std::floor(std::log10(size))));
  std::string text = fmt::format("{:.{}f}", size, decimals);
  if (size > 0 && text.find_first_not_of("0.") == std::string::npos) return value < 0 ? "> -1e-9" : "< 1e-9";
  while (text.back() == '0' && text[text.size() - 2] != '.') text.pop_back();
  return value < 0 ? "-" + text : text;
}

std::string grouped(double value) {
  std::string text = figures(value);
  const std::size_t first = value < 0 ? 1 : 0;
  const std::size_t point = text.find('.');
  if (point == std::string::npos) return text;
  for (std::size_t at = point; at > first + 3;) text.insert(at -= 3, "\u00a0");
  return text;
}

std::string exact_cost(ByteTime amount, std::int64_t price_nano) {
  // The product is in billionths of the currency per GiB·h and is rounded once.
  const __int128 product = amount.byte_ms() * price_nano;
  const __int128 half = product < 0 ? -kByteMsPerGibHour / 2 : kByteMsPerGibHour / 2;
  return decimal((product + half) / kByteMsPerGibHour, 1'000'000'000);
}

std::string exact_gib_hours(ByteTime amount) { return decimal(amount.byte_ms(), kByteMsPerGibHour); }

}  // namespace ration::history
