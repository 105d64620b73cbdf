#include "history/amount.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace ration::history {
namespace {

constexpr double kGibHour = 1073741824.0 * 3'600'000.0;

}  // namespace

std::string byte_seconds(ByteTime amount) {
  const bool negative = amount.byte_ms() < 0;
  unsigned __int128 rest =
      negative ? -static_cast<unsigned __int128>(amount.byte_ms()) : static_cast<unsigned __int128>(amount.byte_ms());
  const auto thousandths = static_cast<unsigned>(rest % 1000);
  rest /= 1000;
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  if (thousandths != 0) {
    digits += fmt::format(".{:03}", thousandths);
    while (digits.back() == '0') digits.pop_back();
  }
  return digits;
}

double gib_hours(ByteTime amount) { return static_cast<double>(amount.byte_ms()) / kGibHour; }

TimeMs month_start(int year, int month) {
  year += (month - 1) / 12;
  month = (month - 1) % 12 + 1;
  const std::chrono::sys_days day{std::chrono::year{year} / month / 1};
  return std::chrono::duration_cast<std::chrono::milliseconds>(day.time_since_epoch()).count();
}

}  // namespace ration::history
