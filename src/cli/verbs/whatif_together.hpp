// The part of `ration whatif` that asks about programs side by side.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/session/session.hpp"
#include "trace/event.hpp"

namespace ration::cli {

/// The answer whether two recorded runs fit on one GPU together, and how many copies of the first one fit.
struct SideBySide {
  bool fits = true;  ///< false if one run alone exceeds the GPU, or both do at some start
  nlohmann::json document;
  std::string text;
};

/// Answers for `first` beside `second`, which may be null, on a GPU of `size`, which may be absent.
[[nodiscard]] SideBySide side_by_side(const Session& session, const trace::Recording& first,
                                      const trace::Recording* second, std::optional<Bytes> size);

[[nodiscard]] constexpr double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }
/// Returns a moment as text: `0.250s`, `3m 10s`.
[[nodiscard]] std::string moment(std::int64_t nanoseconds);

}  // namespace ration::cli
