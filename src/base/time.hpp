// Instants as text (RFC 3339 in UTC). Used by everything that shows one or is asked for one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ration {

/// `2026-01-14T12:03:58.214Z`, of milliseconds since 1970-01-01 UTC.
[[nodiscard]] std::string rfc3339(std::int64_t unix_ms);

/// The same, of nanoseconds.
[[nodiscard]] std::string utc(std::uint64_t unix_ns);

/// Milliseconds since 1970-01-01 UTC of `2026-01-14T12:03:58.214Z`, with or without its fraction and its Z, or of
/// `2026-01-14`. Absent: it is none, or a day that its month does not have.
[[nodiscard]] std::optional<std::int64_t> parse_time(const std::string& text);

}  // namespace ration
