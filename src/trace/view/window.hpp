// What the places of a recording held in a range of its time: a line of maxima, and the events themselves where they
// are few. Promises: no maximum is lost, however wide a column; a range of a long recording with an overview reads at
// most kMostRead events.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/overview.hpp"

namespace ration::trace {

/// A range of a recording, in nanoseconds since it began, and in how many columns it is shown.
struct Range {
  std::int64_t from = 0;
  std::int64_t to = kLatest;
  std::size_t columns = 1024;
  std::size_t most_listed = 500;  ///< events that may be listed
};

/// The most that a place held in each column.
struct Line {
  Place place;
  std::vector<std::int64_t> most;
};

struct ListedEvent {
  Event event;
  std::int64_t held = 0;  ///< by its place after it
};

struct Window {
  std::int64_t from = 0;  ///< where the columns begin: at the range, or shortly before it
  std::int64_t to = 0;
  std::int64_t step = 1;  ///< nanoseconds of a column
  std::vector<Line> lines;
  std::optional<std::uint64_t> events;  ///< of the range; nullopt if the columns are from the overview
  std::vector<ListedEvent> listed;      ///< all events of the range, unless they are too many
};

inline constexpr std::uint64_t kMostRead = 4'000'000;

/// Returns what happened in the range, which is cut to the recording.
[[nodiscard]] Window window_of(const Recording& recording, const Overview& overview, Range range);

}  // namespace ration::trace
