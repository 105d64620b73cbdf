// What the tests of the live view expect of every frame.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "top/frame.hpp"

namespace ration::top::testing {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Expects nothing that a terminal would obey, and no line wider than the frame.
inline void expect_harmless(const Grid& grid, bool utf8) {
  const std::string text = grid.text(false);
  const auto lines = lines_of(text);
  EXPECT_EQ(static_cast<int>(lines.size()), grid.rows());
  for (const std::string& line : lines) {
    EXPECT_LE(width_of(line), grid.columns());
    for (const char letter : line) {
      const auto byte = static_cast<unsigned char>(letter);
      EXPECT_FALSE(byte < 0x20 || byte == 0x7f || (!utf8 && byte >= 0x80)) << static_cast<int>(byte);
    }
    EXPECT_EQ(line.find("\xc2\x9b"), std::string::npos);      // CSI in one byte
    EXPECT_EQ(line.find("\xe2\x80\xae"), std::string::npos);  // writes from right to left
  }
}

}  // namespace ration::top::testing
