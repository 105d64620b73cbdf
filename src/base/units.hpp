// Parses and formats sizes and durations as people write them. Used by everything that takes a size from a person or
// shows one. Promises: a number without a unit is rejected (TensorFlow means MiB, PyTorch a fraction, other programs
// bytes); nothing overflows silently; any text may be given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration {

/// Parses a size: `4GiB`, `4G`, `4g`, `512MiB`, `8GB` (10^9), `50%`, `50%free`, `max`, `max-1GiB`, `unlimited`. G, M
/// and K are binary, as in Docker and systemd; `%` is a part of `total`, `%free` is a part of `free`; errors call the
/// device or machine `place`. Fails with E1101 to E1105.
[[nodiscard]] Result<Bytes> parse_size(std::string_view text, Bytes total, Bytes free, std::string_view place = "GPU");

/// Parses `500ms`, `30s`, `5m` or `2h` to nanoseconds. Fails with E1106.
[[nodiscard]] Result<std::uint64_t> parse_duration(std::string_view text);

enum class Units { kIec, kSi, kBytes };

/// Formats a size with three significant digits and a unit, `3.61 GiB`, or with kSi as `3.88 GB`, or with kBytes as the
/// exact number.
[[nodiscard]] std::string format_size(Bytes size, Units units = Units::kIec);

/// Formats like format_size(), but rounds up: a limit of the printed size is at least `size`.
[[nodiscard]] std::string format_size_up(Bytes size, Units units = Units::kIec);

/// Formats the two largest parts of a duration: `1h 02m`, `12m 41s`, `8s`.
[[nodiscard]] std::string format_duration(std::uint64_t nanoseconds);

/// Formats a count with its noun: `1 GPU`, `2 GPUs`.
[[nodiscard]] std::string counted(std::size_t number, std::string_view thing);

}  // namespace ration
