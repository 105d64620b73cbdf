// The JSON documents that a page shows of a recording. The dashboard requests each document from the daemon; the HTML
// file contains them. The numbers of the inspection are those of `ration inspect -o json`.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>

#include "trace/view/window.hpp"

namespace ration::trace {

/// The most entries of each kind that a document may have.
struct Detail {
  std::size_t runs = 2000;    ///< in a map
  std::size_t groups = 2000;  ///< in a flame graph
  std::size_t moments = 32;   ///< in the usage over time
  std::size_t denials = 1000, marks = 1000;
};

/// Returns the facts about a recording, its inspection, and the events in a range of its time.
[[nodiscard]] nlohmann::json view_of(const Recording& recording, const Range& range, const Detail& detail = {});

/// Returns the content of every place at a time, or at the peak of each place.
[[nodiscard]] nlohmann::json moment_view(const Recording& recording, std::optional<std::int64_t> at,
                                         const Detail& detail = {});

/// Returns the content of every place at each of these times, which must be sorted.
[[nodiscard]] nlohmann::json moment_views(const Recording& recording, const std::vector<std::int64_t>& times,
                                          const Detail& detail);

/// Returns how much of the held memory was in use, at several moments of a range.
[[nodiscard]] nlohmann::json usage_view(const Recording& recording, const Range& range, const Detail& detail = {});

/// Returns the changes from one recording to another, at their peaks or at a time.
[[nodiscard]] nlohmann::json changes_view(const Recording& before, const Recording& after,
                                          std::optional<std::int64_t> at = {});

}  // namespace ration::trace
