// Steps of a size, as people write them: `+1GiB`, `-25%`. Used by what changes a limit.
#pragma once

#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration {

/// True where `text` begins with a sign.
[[nodiscard]] inline bool is_step(std::string_view text) {
  return !text.empty() && (text.front() == '+' || text.front() == '-');
}

/// The size behind the sign. Errors of parse_size; their texts and fixes keep the sign. `text`: is_step().
[[nodiscard]] Result<Bytes> parse_step(std::string_view text, Bytes device_total, Bytes device_free);

}  // namespace ration
