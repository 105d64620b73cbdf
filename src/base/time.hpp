// Instants as text (RFC 3339 in UTC), and a clock that nobody sets. Used by everything that shows an instant or is
// asked for one, and by the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ration {

/// Nanoseconds: the time of day of this program's first question, and from there evenly on, whatever is done to the
/// clock. For ages and deadlines.
[[nodiscard]] std::uint64_t steady_time_ns();

/// `2026-01-14T12:03:58.214Z`, of milliseconds since 1970-01-01 UTC.
[[nodiscard]] std::string rfc3339(std::int64_t unix_ms);

/// The same, of nanoseconds.
[[nodiscard]] std::string utc(std::uint64_t unix_ns);

/// Milliseconds since 1970-01-01 UTC of `2026-01-14T12:03:58.214Z`, with or without its fraction and its Z, or of
/// `2026-01-14`. Absent: it is none, or a day that its month does not have.
[[nodiscard]] std::optional<std::int64_t> parse_time(const std::string& text);

}  // namespace ration
