#include "rows/filter.hpp"

#include <random>

#include "node.hpp"
#include "rows/order.hpp"

namespace ration::top::testing {
namespace {

class FilterOf : public Top {
 protected:
  std::vector<std::string> shown(const std::string& text) {
    const auto filter = Filter::parse(text);
    if (!filter) return {"refused: " + filter.error().id};
    std::vector<std::string> names;
    for (const Row& row : model_.rows)
      if (filter->matches(row, model_.device(row.gpu))) names.push_back(row.title());
    return names;
  }
  Model model_ = read_snapshot(snapshot(usual_rows()));
};
using Names = std::vector<std::string>;

TEST_F(FilterOf, SizesCountsTextsAndYesNoAreCompared) {
  EXPECT_EQ(shown("used>4GiB & denied>0"), (Names{"vision/serve"}));
  EXPECT_EQ(shown("tenant~=NL"), (Names{"nlp/train"}));
  EXPECT_EQ(shown("tenant=nlp"), (Names{"nlp/train"}));
  EXPECT_EQ(shown("tenant!~nlp & governed=yes"), (Names{"vision/serve", "jup/kernel"}));
  EXPECT_EQ(shown("governed==no"), (Names{"?/python"}));
  EXPECT_EQ(shown("used>=10GiB & used<=10GiB"), (Names{"vision/serve"}));
  EXPECT_EQ(shown("full=yes"), (Names{"vision/serve"}));
  EXPECT_EQ(shown("pid=6001"), (Names{"?/python"}));
}

TEST_F(FilterOf, AndBindsCloserThanOrAndNotClosest) {
  EXPECT_EQ(shown("tenant=nlp | tenant=vision & denied=0"), (Names{"nlp/train"}));
  EXPECT_EQ(shown("(tenant=nlp | tenant=vision) & denied>0"), (Names{"vision/serve"}));
  EXPECT_EQ(shown("!tenant=nlp && !governed=no"), (Names{"vision/serve", "jup/kernel"}));
  EXPECT_EQ(shown("!(tenant=nlp || denied>0) & governed=yes"), (Names{"jup/kernel"}));
}

TEST_F(FilterOf, AWordIsLookedForInEveryText) {
  EXPECT_EQ(shown("carol"), (Names{"?/python"}));
  EXPECT_EQ(shown("exp=42"), (Names{"refused: E1429"}));  // `exp` is not a field
  EXPECT_EQ(shown("\"exp=42\""), (Names{"nlp/train", "vision/serve", "jup/kernel"}));
  EXPECT_EQ(shown(""), (Names{"nlp/train", "vision/serve", "jup/kernel", "?/python"}));
}

TEST_F(FilterOf, AShareIsOfTheRowsDevice) {
  EXPECT_EQ(shown("used>25%"), (Names{"nlp/train"}));
  EXPECT_EQ(shown("used>=25%"), (Names{"nlp/train", "vision/serve"}));
  for (Row& row : model_.rows) row.gpu = 7;
  EXPECT_EQ(shown("used>25%"), (Names{}));
}

TEST_F(FilterOf, WhatIsUnknownIsNeitherMoreNorLess) {
  EXPECT_EQ(shown("denied=0 | denied!=0"), (Names{"nlp/train", "vision/serve", "jup/kernel"}));
  EXPECT_EQ(shown("limit>0 | limit<=0"), (Names{"nlp/train", "vision/serve", "jup/kernel"}));
}

TEST_F(FilterOf, WhatIsUnknownIsFoundByName) {
  EXPECT_EQ(shown("denied==n/a"), (Names{"?/python"}));
  EXPECT_EQ(shown("denied!=n/a"), (Names{"nlp/train", "vision/serve", "jup/kernel"}));
  EXPECT_EQ(shown("workload=n/a"), (Names{"?/python"}));
  EXPECT_EQ(shown("denied>n/a"), (Names{"refused: E1429"}));
}

TEST_F(FilterOf, TwoThatFollowEachOtherAreBothWanted) {
  EXPECT_EQ(shown("tenant==vision denied>0"), (Names{"vision/serve"}));
  EXPECT_EQ(shown("tenant==vision denied>0 | tenant=nlp"), (Names{"nlp/train", "vision/serve"}));
  EXPECT_EQ(shown("governed=yes !tenant=nlp (denied>0)"), (Names{"vision/serve"}));
}

TEST_F(FilterOf, FullWidthSignsAndLettersCountAsThoseOfAscii) {
  EXPECT_EQ(shown("used＞4GiB ＆ denied＞0"), (Names{"vision/serve"}));
  EXPECT_EQ(shown("used＞＝１０GiB　used＜＝１０ＧｉＢ"), (Names{"vision/serve"}));
  EXPECT_EQ(shown("ｔｅｎａｎｔ＝ｎｌｐ ｜ （tenant＝vision）"), (Names{"nlp/train", "vision/serve"}));
  EXPECT_EQ(shown("！tenant＝nlp & governed＝yes"), (Names{"vision/serve", "jup/kernel"}));
  EXPECT_EQ(shown("label＝“exp＝42” & tenant＝＂nlp＂"), (Names{"nlp/train"}));
  model_.rows[0].tenant = "自然语言（一）";
  model_.rows[1].tenant = "视觉——Ａ组";
  EXPECT_EQ(shown("tenant=\"自然语言（一）\""), (Names{"自然语言（一）/train"}));
  EXPECT_EQ(shown("tenant=“自然语言（一）”"), (Names{"自然语言（一）/train"}));
  EXPECT_EQ(shown("tenant~=语言"), (Names{"自然语言（一）/train"}));
  EXPECT_EQ(shown("自然语言"), (Names{"自然语言（一）/train"}));
  EXPECT_EQ(shown("tenant=视觉——Ａ组"), (Names{"视觉——Ａ组/serve"}));
  EXPECT_EQ(shown("tenant=视觉--a组"), (Names{"视觉——Ａ组/serve"}));
  EXPECT_EQ(shown("used＞"), (Names{"refused: E1429"}));
  EXPECT_EQ(shown("label＝“exp"), (Names{"refused: E1429"}));
}

TEST_F(FilterOf, IdleIsADuration) {
  model_.rows[2].idle_seconds = 47 * 60;
  EXPECT_EQ(shown("idle>30m"), (Names{"jup/kernel"}));
  EXPECT_EQ(shown("idle>1h"), (Names{}));
}

TEST_F(FilterOf, WhatCannotBeUnderstoodIsRefusedWithANumberAndAFix) {
  for (const char* text :
       {"used>", "used>4", "usd>4GiB", "(used>4GiB", "used>4GiB)", "used>4GiB &", "tenant>nlp", "used~=4GiB",
        "governed>yes", "governed=perhaps", "idle>soon", "denied=many", "&", "!", "\"", "used>9999999TiB"}) {
    const auto filter = Filter::parse(text);
    ASSERT_FALSE(filter) << text;
    EXPECT_EQ(filter.error().id.substr(0, 1), "E") << text;
    EXPECT_FALSE(filter.error().fix.empty()) << text;
    EXPECT_EQ(filter.error().exit_code, 2) << text;
  }
  EXPECT_NE(Filter::parse("usd>4GiB").error().what.find("Did you mean 'used'?"), std::string::npos);
  EXPECT_FALSE(Filter::parse(std::string(900, '(')));
  EXPECT_FALSE(Filter::parse(std::string(900, '!')));
  EXPECT_FALSE(Filter::parse(std::string(5000, 'a')));
}

TEST_F(FilterOf, AnyTextAtAllIsReadOrRefused) {
  const std::vector<std::string> pieces{"used", ">",        "4GiB",    "&",   "|",   "!",
                                        "(",    ")",        "tenant",  "~=",  "nlp", "=",
                                        "!=",   "!~",       "idle",    "30m", "\"",  "50%",
                                        "max-", "governed", "no",      "==",  "<=",  "denied",
                                        " ",    "\xff",     "\x1b[2J", "0",   "gpu", "\xe6\x9c\xba",
                                        "＞",   "“"};
  std::mt19937 random(1);
  int understood = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto count = random() % 12; count > 0; --count) text += pieces[random() % pieces.size()];
    const auto filter = Filter::parse(text);
    if (!filter) {
      EXPECT_FALSE(filter.error().id.empty());
      continue;
    }
    ++understood;
    for (const Row& row : model_.rows) (void)filter->matches(row, model_.device(row.gpu));
  }
  EXPECT_GT(understood, 100);
}

TEST_F(FilterOf, TheOppositeOfAComparisonHoldsForTheOthersThatAreKnown) {
  std::mt19937 random(2);
  const std::vector<std::pair<const char*, const char*>> opposites{{">", "<="}, {"<", ">="}, {"=", "!="}};
  for (int round = 0; round < 200; ++round) {
    const auto& [one, other] = opposites[random() % opposites.size()];
    const std::string bound = std::to_string(random() % 16) + "GiB";
    const auto first = shown(std::string("used") + one + bound), second = shown(std::string("used") + other + bound);
    EXPECT_EQ(first.size() + second.size(), model_.rows.size()) << one << bound;
  }
}

TEST_F(FilterOf, RowsAreSortedByManyKeysAndTheUnknownIsLast) {
  std::vector<const Row*> rows;
  for (const Row& row : model_.rows) rows.push_back(&row);
  const auto sorted = [&](const char* by) {
    Order::parse(by)->sort(rows);
    Names names;
    for (const Row* row : rows) names.push_back(row->title());
    return names;
  };
  ASSERT_TRUE(Order::parse("limit，－used"));
  EXPECT_EQ(sorted("limit，－used"), sorted("limit,-used"));
  EXPECT_EQ(sorted("-used"), (Names{"nlp/train", "vision/serve", "jup/kernel", "?/python"}));
  EXPECT_EQ(sorted("-limit"), (Names{"nlp/train", "vision/serve", "jup/kernel", "?/python"}));
  EXPECT_EQ(sorted("limit"), (Names{"jup/kernel", "vision/serve", "nlp/train", "?/python"}));
  EXPECT_EQ(sorted("-denied, name"), (Names{"vision/serve", "jup/kernel", "nlp/train", "?/python"}));
  for (const char* text : {"", "usd", "used,,name", "-"}) EXPECT_EQ(Order::parse(text).error().id, "E1431") << text;
}

}  // namespace
}  // namespace ration::top::testing
