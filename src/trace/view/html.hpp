// One HTML file that shows a recording as the dashboard does, without a network. Promise: at most kMostOfHtml bytes,
// however long the recording is, unless its names and texts alone are longer; its numbers of the inspection are those
// of `ration inspect -o json`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "trace/event.hpp"

namespace ration::trace {

inline constexpr std::size_t kMostOfHtml = 3'000'000;

/// A recording and what people call it.
struct NamedRecording {
  const Recording* recording = nullptr;
  std::string name;
};

/// Writes the page; with `other`, both runs over the same axis and what changed from one to the other. It opens at the
/// peaks, or at `at`.
void write_html_page(const NamedRecording& one, const NamedRecording& other, std::optional<std::int64_t> at,
                     std::ostream& out);

}  // namespace ration::trace
