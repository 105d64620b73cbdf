// The one splitter.
#include "base/strings.hpp"

#include <gtest/gtest.h>

namespace ration {
namespace {

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

}  // namespace
}  // namespace ration
