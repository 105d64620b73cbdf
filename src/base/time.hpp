// Instants as text (RFC 3339 in UTC; for people also in local time), and a clock that cannot be set. Used by everything
// that shows or parses an instant, and by the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ration {

/// Returns nanoseconds since 1970 by a clock of this program. The first call takes the time of day; from then on the
/// clock advances evenly, even if the system's clock is set. Used for ages and deadlines.
[[nodiscard]] std::uint64_t steady_time_ns();

/// Formats milliseconds since 1970-01-01 UTC as `2026-01-14T12:03:58.214Z`.
[[nodiscard]] std::string rfc3339(std::int64_t unix_ms);

/// Formats nanoseconds like rfc3339().
[[nodiscard]] std::string utc(std::uint64_t unix_ns);

/// Formats milliseconds since 1970 as `2026-01-14 13:03:58` in the time zone of TZ or of this machine.
[[nodiscard]] std::string local_time(std::int64_t unix_ms);

/// Parses `2026-01-14T12:03:58.214Z`, with or without fraction and Z, or `2026-01-14`, to milliseconds since 1970-01-01
/// UTC; absent if the text is no time, or its month has no such day.
[[nodiscard]] std::optional<std::int64_t> parse_time(const std::string& text);

}  // namespace ration
