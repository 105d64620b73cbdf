// What a terminal may be given of a stranger's text.
#include "base/printable.hpp"

#include <gtest/gtest.h>

namespace ration {
namespace {

void expect_stays(const std::string& text) {
  EXPECT_TRUE(is_printable(text)) << text;
  EXPECT_EQ(printable(text), text);
}

void expect_becomes(const std::string& text, const std::string& shown) {
  EXPECT_FALSE(is_printable(text)) << shown;
  EXPECT_EQ(printable(text), shown);
  EXPECT_TRUE(is_printable(printable(text))) << shown;
}

TEST(Printable, NamesOfEveryLanguageStay) {
  for (const char* text : {"", "train", "~!@#$%^&*()", "训练任务", "обучение", "entraînement", "תרגול", "\xc2\xa0",
                           "🧪", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"})
    expect_stays(text);
}

TEST(Printable, WhatMovesACursorDoesNotStay) {
  expect_becomes("a\x1b[2J", "a?[2J");
  expect_becomes("\n\t\x7f", "???");
  expect_becomes(std::string("a\0b", 3), "a?b");
  expect_becomes(
      "a\xc2\x9b"
      "2Jb",
      "a?2Jb");
  expect_becomes("\xc2\x80\xc2\x9f", "??");
}

TEST(Printable, WhatTurnsTheDirectionDoesNotStay) {
  for (const char* mark : {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202e", "\u2066", "\u2069"})
    expect_becomes(std::string("训") + mark + "练", "训?练");
  for (const char* beside : {"\u200d", "\u2027", "\u202f", "\u2065", "\u206a"}) expect_stays(beside);
}

TEST(Printable, WhatIsNoUtf8DoesNotStay) {
  expect_becomes(
      "a\xff"
      "b",
      "a?b");
  expect_becomes(
      "\x9b"
      "2J",
      "?2J");                        // an 8-bit control character of its own
  expect_becomes("\xe8\xae", "??");  // cut off
  expect_becomes(
      "\xe8\xae"
      "a",
      "??a");
  expect_becomes("\xc0\xaf", "??");  // two bytes for what needs one
  expect_becomes("\xc1\x9b", "??");
  expect_becomes("\xe0\x82\x9b", "???");  // three for what needs two
  expect_becomes("\xf0\x80\x80\x80", "????");
  expect_becomes("\xed\xa0\x80", "???");       // half of a pair
  expect_becomes("\xf4\x90\x80\x80", "????");  // beyond the last
  EXPECT_EQ(printable("train\xff", '_'), "train_");
}

}  // namespace
}  // namespace ration
