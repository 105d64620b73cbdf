// The one way in which labels are read.
#include "base/labels.hpp"

#include <gtest/gtest.h>

namespace ration {
namespace {

using Labels = std::map<std::string, std::string>;

TEST(Labels, AreReadByTheSameRulesWhateverStandsThere) {
  EXPECT_EQ(parse_labels("team=nlp,stage=train"), (Labels{{"team", "nlp"}, {"stage", "train"}}));
  EXPECT_EQ(parse_labels(""), Labels{});
  EXPECT_EQ(parse_labels("expression=a=b"), (Labels{{"expression", "a=b"}}));
  EXPECT_EQ(parse_labels("team=a,team=b"), (Labels{{"team", "b"}})) << "the last one counts";
  EXPECT_EQ(parse_labels("note="), (Labels{{"note", ""}}));
  EXPECT_EQ(parse_labels("alone,=nameless,,team=nlp,"), (Labels{{"team", "nlp"}})) << "the others are no labels";
}

TEST(Labels, OneThatWouldNotStayOneIsNone) {
  for (const char* good : {"team=nlp", "note=two words", "a=", "a=b=c", "équipe=训练"})
    EXPECT_TRUE(is_label(good)) << good;
  for (const char* bad : {"", "team", "=nlp", "a=b,c=d", "a=\x1b[2J", "a=\xff"}) EXPECT_FALSE(is_label(bad)) << bad;
}

TEST(Labels, OneOfAnyValueStaysOne) {
  for (const char* value : {"web", "a,b", "", "line\nbreak", "\xff", "a=b"})
    EXPECT_TRUE(is_label(label_of("image", value)));
  EXPECT_EQ(label_of("image", "a,b"), "image=a_b");
}

TEST(Labels, AsManyAreKeptAsFitTheFirstBeforeTheOthers) {
  const std::string large = "large=" + std::string(kMaxLabels - 7, 'x');
  EXPECT_EQ(fitting_labels({"a=b", large, "c=d"}), (std::vector<std::string>{"a=b", "c=d"}));
  EXPECT_EQ(fitting_labels({large, "a"}), (std::vector<std::string>{large})) << "two more bytes are one too many";
  EXPECT_EQ(fitting_labels({large + "x"}).size(), 1U);
}

}  // namespace
}  // namespace ration
