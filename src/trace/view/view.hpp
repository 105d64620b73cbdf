// The documents that a page shows of a recording. The dashboard asks the daemon for each; the HTML file has them
// inside. The numbers of the inspection in them are those of `ration inspect -o json`.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>

#include "trace/view/window.hpp"

namespace ration::trace {

/// How much of a recording a document may tell.
struct Detail {
  std::size_t runs = 2000;    ///< of a map
  std::size_t groups = 2000;  ///< of a flame graph
  std::size_t moments = 32;   ///< of the usage over time
  std::size_t denials = 1000, marks = 1000;
};

/// Returns what a recording is, its inspection, and what happened in a range of it.
[[nodiscard]] nlohmann::json view_of(const Recording& recording, const Range& range, const Detail& detail = {});

/// Returns what every place consisted of at a time, or at its own peak.
[[nodiscard]] nlohmann::json moment_view(const Recording& recording, std::optional<std::int64_t> at,
                                         const Detail& detail = {});

/// Returns what every place consisted of at each of these times, which are in order.
[[nodiscard]] nlohmann::json moment_views(const Recording& recording, const std::vector<std::int64_t>& times,
                                          const Detail& detail);

/// Returns how much of what was held was of use, at some moments of a range.
[[nodiscard]] nlohmann::json usage_view(const Recording& recording, const Range& range, const Detail& detail = {});

/// Returns the changes from one recording to another, at their peaks or at a time.
[[nodiscard]] nlohmann::json changes_view(const Recording& before, const Recording& after,
                                          std::optional<std::int64_t> at = {});

}  // namespace ration::trace
