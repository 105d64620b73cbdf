#include "trace/open_ranges.hpp"

#include <algorithm>

namespace ration::trace {

std::vector<OpenRange> OpenRanges::all() const {
  std::vector<OpenRange> all;
  for (const auto& [key, ranges] : open_) all.insert(all.end(), ranges.begin(), ranges.end());
  std::sort(all.begin(), all.end(), [](const OpenRange& a, const OpenRange& b) { return a.order < b.order; });
  return all;
}

}  // namespace ration::trace
