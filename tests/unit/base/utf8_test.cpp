// The one decoder, against what RFC 3629 says of every sequence of bytes.
#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ration {
namespace {

std::vector<char32_t> characters(std::string_view text) {
  std::vector<char32_t> all;
  while (!text.empty()) all.push_back(take_character(text));
  return all;
}

TEST(Utf8, EveryCharacterComesBackAsItWasWritten) {
  for (char32_t character = 0; character <= 0x10ffff; ++character) {
    if (character >= 0xd800 && character < 0xe000) continue;
    const std::string text = to_utf8(character);
    ASSERT_EQ(characters(text), std::vector<char32_t>{character});
    ASSERT_TRUE(is_utf8(text));
    for (std::size_t size = 1; size < text.size(); ++size) {
      std::string_view cut = std::string_view(text).substr(0, size);
      ASSERT_EQ(take_character(cut), kNoCharacter) << "the rest lies beyond";
    }
  }
}

TEST(Utf8, WhatIsNoCharacterTakesOneByte) {
  for (const char* bad : {"\x80", "\xbf", "\xc0\xaf", "\xc1\x9b", "\xe0\x82\x9b", "\xf0\x80\x80\x80", "\xed\xa0\x80",
                          "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe8\xae"}) {
    const std::string text = bad;
    EXPECT_FALSE(is_utf8(text));
    EXPECT_EQ(characters(text), std::vector<char32_t>(text.size(), kNoCharacter));
  }
  EXPECT_EQ(characters("\xe8\xae"
                       "a"),
            (std::vector<char32_t>{kNoCharacter, kNoCharacter, U'a'}));
  EXPECT_EQ(characters(std::string_view("a\0b", 3)), (std::vector<char32_t>{U'a', 0, U'b'}));
}

TEST(Utf8, CharactersAreNotCutInTwo) {
  const std::string_view text = "a·训🧪";  // 1, 2, 3 and 4 bytes
  for (const auto& [bytes, kept] :
       {std::pair{0, 0}, {1, 1}, {2, 1}, {3, 3}, {5, 3}, {6, 6}, {9, 6}, {10, 10}, {99, 10}})
    EXPECT_EQ(shortened(text, static_cast<std::size_t>(bytes)).size(), static_cast<std::size_t>(kept)) << bytes;
}

TEST(Utf8, FullWidthLettersAndLongDashesAreWrittenInAscii) {
  EXPECT_EQ(in_ascii("４ＧｉＢ"), "4GiB");
  EXPECT_EQ(in_ascii("——limit=４"), "--limit=4");
  EXPECT_EQ(in_ascii("–name"), "--name");
  EXPECT_EQ(in_ascii("０，1、2。\u3000＝“x”"), "0,1,2. =\"x\"");
  EXPECT_EQ(in_ascii("训练 a\xff"), "训练 a\xff");
}

}  // namespace
}  // namespace ration
