// Closed months: sealed once, corrected only by lines beside them. Used by History (closing) and by reports (showing).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "history/history.hpp"

namespace ration::history {

/// From and to of `2026-01`; E1914 for another text.
[[nodiscard]] Result<std::pair<TimeMs, TimeMs>> month_of(const std::string& name);
/// `2026-01`, of the month in which `time` lies.
[[nodiscard]] std::string month_name(TimeMs time);

[[nodiscard]] std::string sha256(const std::string& text);

[[nodiscard]] std::optional<ClosedPeriod> read_period(Database& database, const std::string& name);
[[nodiscard]] std::vector<Adjustment> read_adjustments(Database& database, const std::string& first,
                                                       const std::string& last);

}  // namespace ration::history
