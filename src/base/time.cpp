#include "base/time.hpp"

#include <fmt/format.h>
#include <time.h>

#include <chrono>

#include "base/clock.hpp"

namespace ration {

std::uint64_t steady_time_ns() {
  const auto running_ns = [] {
    const auto running = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(running).count());
  };
  static const std::uint64_t started_ns = unix_time_ns() - running_ns();
  return started_ns + running_ns();
}

std::string rfc3339(std::int64_t unix_ms) {
  const auto day = std::chrono::floor<std::chrono::days>(std::chrono::milliseconds{unix_ms});
  const std::chrono::year_month_day date{std::chrono::sys_days{day}};
  const auto ms = (std::chrono::milliseconds{unix_ms} - day).count();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), ms / 3'600'000,
                     ms / 60'000 % 60, ms / 1'000 % 60, ms % 1'000);
}

std::string utc(std::uint64_t unix_ns) { return rfc3339(static_cast<std::int64_t>(unix_ns / 1'000'000U)); }

std::string local_time(std::int64_t unix_ms) {
  const auto seconds =
      static_cast<std::time_t>(std::chrono::floor<std::chrono::seconds>(std::chrono::milliseconds{unix_ms}).count());
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return rfc3339(unix_ms);  // a year that tm cannot hold
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::optional<std::int64_t> parse_time(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) {
    parts = {};
    end = ::strptime(text.c_str(), "%Y-%m-%d", &parts);
  }
  if (end == nullptr) return std::nullopt;
  std::int64_t ms = 0;
  if (*end == '.') {
    std::int64_t worth = 100;
    for (++end; *end >= '0' && *end <= '9'; ++end, worth /= 10) ms += (*end - '0') * worth;
  }
  if (*end == 'Z') ++end;
  if (end != text.c_str() + text.size()) return std::nullopt;
  std::tm noon = parts;  // at noon, so that a leap second (`:60`) does not change the day
  noon.tm_hour = 12;
  (void)::timegm(&noon);
  if (noon.tm_mday != parts.tm_mday) return std::nullopt;  // for example, February 30 became March 2
  return static_cast<std::int64_t>(::timegm(&parts)) * 1'000 + ms;
}

}  // namespace ration
