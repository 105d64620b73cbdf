// An inspection and a difference as JSON: what `ration inspect -o json` prints, and what the dashboard's page and the
// HTML file show.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "trace/difference.hpp"
#include "trace/inspection.hpp"

namespace ration::trace {

[[nodiscard]] constexpr double seconds_of(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }
/// Returns the index of the device; null for pinned host memory.
[[nodiscard]] inline nlohmann::json gpu_of(const Place& place) {
  return place.is_host ? nlohmann::json() : nlohmann::json(place.device);
}
/// Adds the text of a call site, if it was recorded.
void add_site(nlohmann::json& row, std::uint32_t site, const Header& header);

[[nodiscard]] nlohmann::json to_json(const Held& held, const Header& header);
[[nodiscard]] nlohmann::json to_json(const Inspection& found, const Header& header);

/// Returns the name of a row. Without `at_peak` the recordings were compared at a time, so a peak is called `held`.
[[nodiscard]] const char* name_of(Compared what, bool at_peak);
[[nodiscard]] nlohmann::json to_json(const std::vector<Difference>& changes, bool at_peak);

}  // namespace ration::trace
