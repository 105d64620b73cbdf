// Settings of allocators as text: `NAME:VALUE`, with commas between them. Used by the parsers of each allocator.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace ration::trace {

using Setting = std::pair<std::string_view, std::string_view>;

/// Splits at commas outside of brackets. Fails with E1813 where a part has no colon.
[[nodiscard]] Result<std::vector<Setting>> settings_in(std::string_view text, std::string_view allocator);

/// Parses a number above 0 and at most 1.
[[nodiscard]] std::optional<double> parse_share(std::string_view text);
/// Parses `True` or `False`.
[[nodiscard]] std::optional<bool> parse_truth(std::string_view text);

/// Returns the error for a setting that the model does not know.
[[nodiscard]] tl::unexpected<Error> no_setting(std::string_view text, std::string_view allocator);

}  // namespace ration::trace
