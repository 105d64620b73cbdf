// Seals closed months, so that they never change. Used by History, which closes them, and by reports, which show them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "history/history.hpp"

namespace ration::history {

/// Returns start and end of a month such as `2026-01`. Fails with E1914 for another text.
[[nodiscard]] Result<std::pair<TimeMs, TimeMs>> month_of(const std::string& name);
/// Returns the month that contains `time`, as `2026-01`.
[[nodiscard]] std::string month_name(TimeMs time);

[[nodiscard]] std::string sha256(const std::string& text);

[[nodiscard]] std::optional<ClosedPeriod> read_period(Database& database, const std::string& name);

}  // namespace ration::history
