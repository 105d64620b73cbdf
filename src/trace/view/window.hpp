// The bytes that the places of a recording held in a range of its time: a line of maxima and, if there are few events,
// the events themselves. Promises: no maximum is lost, however wide a column is; for a long recording with an overview,
// at most kMostRead events are read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/overview.hpp"

namespace ration::trace {

/// A range of a recording in nanoseconds since its beginning, and the number of columns that show it.
struct Range {
  std::int64_t from = 0;
  std::int64_t to = kLatest;
  std::size_t columns = 1024;
  std::size_t most_listed = 500;  ///< most events that are listed
};

/// The most bytes that a place held in each column.
struct Line {
  Place place;
  std::vector<std::int64_t> most;
};

struct ListedEvent {
  Event event;
  std::int64_t held = 0;  ///< bytes that its place held after the event
};

struct Window {
  std::int64_t from = 0;  ///< beginning of the first column: that of the range, or shortly before
  std::int64_t to = 0;
  std::int64_t step = 1;  ///< nanoseconds of a column
  std::vector<Line> lines;
  std::optional<std::uint64_t> events;  ///< number of events in the range; nullopt if the columns are from the overview
  std::vector<ListedEvent> listed;      ///< all events of the range; empty if there are too many
};

inline constexpr std::uint64_t kMostRead = 4'000'000;

/// Returns the window of a range. A range that exceeds the recording is cut.
[[nodiscard]] Window window_of(const Recording& recording, const Overview& overview, Range range);

}  // namespace ration::trace
