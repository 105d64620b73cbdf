// Stores the events of one block of a packed recording in columns. Similar values then lie together, which halves the
// compressed size. Used by packed_file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/event.hpp"

namespace ration::trace {

inline constexpr std::size_t kEventsOfBlock = 65'536;

/// Returns the columns of the events, not yet compressed. Times are stored in whole microseconds, counted from `from`.
[[nodiscard]] std::string encode_events(std::span<const Event> events, std::int64_t from);

/// Appends the events of a block to `out`. Returns false if the columns are damaged; `out` then has the events before
/// the damage.
[[nodiscard]] bool decode_events(std::string_view columns, std::int64_t from, std::vector<Event>& out);

}  // namespace ration::trace
