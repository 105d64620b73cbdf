// Parses steps of a size: `+1GiB`, `-25%`. Used by commands that change a limit.
#pragma once

#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration {

/// Returns true if `text` begins with a sign.
[[nodiscard]] inline bool is_step(std::string_view text) {
  return !text.empty() && (text.front() == '+' || text.front() == '-');
}

/// Parses the size after the sign. Fails as parse_size() does; the error's text and its fix contain the sign. Requires
/// is_step(text).
[[nodiscard]] Result<Bytes> parse_step(std::string_view text, Bytes total, Bytes free, std::string_view place = "GPU");

}  // namespace ration
