// One HTML file that shows a recording as the dashboard does, without a network. Promises: the file has at most
// kMostOfHtml bytes, however long the recording is, unless the names and texts alone take more; the numbers of the
// inspection are those of `ration inspect -o json`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "trace/event.hpp"

namespace ration::trace {

inline constexpr std::size_t kMostOfHtml = 3'000'000;

/// A recording and its name for people.
struct NamedRecording {
  const Recording* recording = nullptr;
  std::string name;
};

/// Writes the page. With `other`, the page shows both runs over the same axis, and the changes from `one` to `other`.
/// The page opens at the peaks, or at the time `at`.
void write_html_page(const NamedRecording& one, const NamedRecording& other, std::optional<std::int64_t> at,
                     std::ostream& out);

}  // namespace ration::trace
