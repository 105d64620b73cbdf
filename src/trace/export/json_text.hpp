// Writes texts as JSON, for the exports that write it piece by piece.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace ration::trace {

/// Returns the text in quotes. It must be valid UTF-8 without control characters, as trace::cleaned() returns it.
[[nodiscard]] inline std::string quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') quoted += '\\';
    quoted += each;
  }
  return quoted + '"';
}

}  // namespace ration::trace
