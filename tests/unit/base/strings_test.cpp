// What is done to text that people type, and the one splitter.
#include "base/strings.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ration {
namespace {

std::string random_word(std::mt19937& random, unsigned longest) {
  std::string word;
  for (auto length = random() % (longest + 1); length > 0; --length) word += static_cast<char>('a' + random() % 3);
  return word;
}

TEST(Strings, TrimmingTakesBlanksFromTheEndsAlone) {
  EXPECT_EQ(trimmed(" \t a b \r\n"), "a b");
  EXPECT_EQ(trimmed(" \t\r\n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Strings, OnlyAsciiHasALowerCase) { EXPECT_EQ(lower("GiB-\xc3\x84\xc2\xb7Z[@`"), "gib-\xc3\x84\xc2\xb7z[@`"); }

TEST(Strings, ADistanceIsThatOfTheFewestChanges) {
  EXPECT_EQ(distance("limit", "limit"), 0U);
  EXPECT_EQ(distance("limit", "limt"), 1U);
  EXPECT_EQ(distance("limit", "limits"), 1U);
  EXPECT_EQ(distance("limit", "lemit"), 1U);
  EXPECT_EQ(distance("limit", "ilmit"), 1U) << "two letters that changed places";
  EXPECT_EQ(distance("", "limit"), 5U);
}

TEST(Strings, ADistanceIsSymmetricalAndAtMostTheLongerWordAndAtLeastTheDifferenceOfLengths) {
  std::mt19937 random(4);
  for (int round = 0; round < 20'000; ++round) {
    const std::string left = random_word(random, 7), right = random_word(random, 7);
    const std::size_t letters = distance(left, right);
    EXPECT_EQ(letters, distance(right, left)) << left << " " << right;
    EXPECT_EQ(letters == 0, left == right);
    EXPECT_LE(letters, std::max(left.size(), right.size()));
    EXPECT_GE(letters, std::max(left.size(), right.size()) - std::min(left.size(), right.size()));
  }
}

TEST(Strings, OnlyWhatIsNearIsSuggested) {
  const std::vector<std::string> words{"limit", "guarantee", "gpu"};
  EXPECT_EQ(suggestion("limt", words), " Did you mean 'limit'?");
  EXPECT_EQ(suggestion("garantie", words), " Did you mean 'guarantee'?");
  EXPECT_EQ(suggestion("memory", words), "");
  EXPECT_EQ(suggestion("limit", {}), "");
  EXPECT_EQ(nearest(std::string(65, 'x'), {std::string(65, 'x')}), "") << "nobody misspells that much";
}

using Parts = std::vector<std::string_view>;

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,b", ','), (Parts{"a", "b"}));
  EXPECT_EQ(split("a", ','), Parts{"a"});
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split(",", ','), (Parts{"", ""}));
  EXPECT_EQ(split("a,,b,", ','), (Parts{"a", "", "b", ""}));
  EXPECT_EQ(split(std::string_view("a\0b,c", 5), '\0'), (Parts{"a", "b,c"}));
}

TEST(Strings, PartsPointIntoTheText) {
  const std::string text = "left,right";
  EXPECT_EQ(split(text, ',')[1].data(), text.data() + 5);
}

TEST(Strings, SplitOnceCutsAtTheFirstMarkAlone) {
  using Pair = std::pair<std::string_view, std::string_view>;
  EXPECT_EQ(split_once("key=value", '='), Pair("key", "value"));
  EXPECT_EQ(split_once("key=a=b", '='), Pair("key", "a=b"));
  EXPECT_EQ(split_once("=", '='), Pair("", ""));
  EXPECT_EQ(split_once("key", '='), std::nullopt);
  EXPECT_EQ(split_once("", '='), std::nullopt);
}

TEST(Strings, ANumberIsAllOfItsText) {
  EXPECT_EQ(parse_number<std::uint32_t>("4294967295"), 4294967295U);
  EXPECT_EQ(parse_number<std::int32_t>("-7"), -7);
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "0x1", "1.5", "4294967296", "MiB"})
    EXPECT_FALSE(parse_number<std::uint32_t>(text)) << text;
}

}  // namespace
}  // namespace ration
