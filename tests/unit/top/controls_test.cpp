#include "top/controls.hpp"

#include <map>
#include <random>

#include "drawn.hpp"
#include "node.hpp"
#include "top/frame.hpp"

namespace ration::top::testing {
namespace {

class Controls : public Top {
 protected:
  View view_ = view_of(snapshot(usual_rows()));

  Pressed letter(char32_t one) { return press(view_, {Key::Kind::kLetter, one}); }
  Pressed type(const std::string& text, Key::Kind last = Key::Kind::kEnter) {
    for (const char each : text) (void)letter(static_cast<char32_t>(each));
    return press(view_, {last, 0});
  }
  std::string selected() {
    const auto rows = shown_rows(view_);
    const Row* row = selected_row(view_, rows);
    return row == nullptr ? "" : row->title();
  }
};

TEST_F(Controls, ASelectionStaysWithItsRowWhenTheOrderChanges) {
  (void)letter(U'j');
  EXPECT_EQ(selected(), "vision/serve");
  (void)letter(U'o');
  view_.prompt->text.clear();
  (void)type("name");
  EXPECT_EQ(shown_rows(view_).front()->title(), "jup/kernel");
  EXPECT_EQ(selected(), "vision/serve");
  take_snapshot(view_, read_snapshot(snapshot({row("vision", "serve", 1, 2, 17), row("a", "b", 9, 9)})), view_.now + 1);
  EXPECT_EQ(selected(), "vision/serve");
}

TEST_F(Controls, FullWidthKeysActAsThoseOfAscii) {
  (void)letter(U'？');
  ASSERT_TRUE(view_.page);
  EXPECT_EQ(view_.page->kind, Page::Kind::kHelp);
  (void)letter(U'ｑ');
  EXPECT_FALSE(view_.page);
  (void)letter(U'／');
  ASSERT_TRUE(view_.prompt);
  for (const char32_t each : {U'训', U'＞'}) (void)letter(each);
  EXPECT_EQ(view_.prompt->text, "训＞") << "what is typed stays as it is";
  (void)press(view_, {Key::Kind::kEscape, 0});
  (void)letter(U'ｊ');
  EXPECT_EQ(selected(), "vision/serve");
  EXPECT_TRUE(letter(U'ｑ').quit);
}

TEST_F(Controls, ALimitIsAskedForWithWhatWasSeen) {
  (void)letter(U's');
  ASSERT_TRUE(view_.prompt);
  EXPECT_NE(view_.prompt->question.find("nlp/train"), std::string::npos);
  const Pressed pressed = type("20GiB");
  ASSERT_TRUE(pressed.request);
  EXPECT_EQ(pressed.request->kind, Request::Kind::kSet);
  EXPECT_EQ(pressed.request->workload, "train");
  EXPECT_EQ(pressed.request->gpu, 0);
  EXPECT_EQ(pressed.request->value, "20GiB");
  EXPECT_EQ(pressed.request->changes, 2U);
  EXPECT_FALSE(pressed.request->agreed);
  take_answer(
      view_, *pressed.request,
      nlohmann::json{
          {"changes", nlohmann::json::array({{{"old_limit_bytes", 16 * kGiB}, {"limit_bytes", 20 * kGiB}}})},
          {"consequences", nlohmann::json::array({{{"level", "info"}, {"text", "The next allocation sees it."}}})}});
  EXPECT_EQ(view_.message, "train: limit 16.0 GiB → 20.0 GiB. The next allocation sees it.");
}

TEST_F(Controls, ShrinkingBelowWhatIsHeldNeedsAYes) {
  (void)letter(U's');
  const auto first = type("1GiB");
  const nlohmann::json shrinks{
      {"agree", true},
      {"changes", nlohmann::json::array({{{"used_bytes", 12 * kGiB}, {"limit_bytes", kGiB}, {"shrinking", true}}})}};
  take_answer(view_, *first.request, shrinks);
  ASSERT_TRUE(view_.prompt);
  EXPECT_FALSE(type("n").request);
  EXPECT_EQ(view_.message, "nothing was changed.");
  take_answer(view_, *first.request, shrinks);
  EXPECT_FALSE(press(view_, {Key::Kind::kEscape, 0}).request);
  take_answer(view_, *first.request, shrinks);
  (void)letter(U'ｙ');
  const auto second = press(view_, {Key::Kind::kEnter, 0});
  ASSERT_TRUE(second.request);
  EXPECT_TRUE(second.request->agreed);
  EXPECT_EQ(second.request->value, "1GiB");
}

TEST_F(Controls, ReadOnlyNeverAsksForAChange) {
  view_.read_only = true;
  std::mt19937 random(4);
  std::map<Request::Kind, int> asked;
  for (int i = 0; i < 20'000; ++i) {
    const auto kind = static_cast<Key::Kind>(random() % 11);
    const auto one = static_cast<char32_t>(random() % 128);
    const Pressed pressed = press(view_, {kind, kind == Key::Kind::kLetter ? one : 0});
    if (pressed.request) ++asked[pressed.request->kind];
  }
  EXPECT_GT(asked[Request::Kind::kWhy], 0);
  EXPECT_GT(asked[Request::Kind::kExplain], 0);
  EXPECT_EQ(asked[Request::Kind::kSet] + asked[Request::Kind::kTrim], 0);
  const std::string frame = draw(view_, 120, 24, true).text(false);
  EXPECT_EQ(frame.find("[s set"), std::string::npos);
  EXPECT_EQ(frame.find("[t trim"), std::string::npos);
}

TEST_F(Controls, AnyKeysInAnyOrderLeaveAViewThatCanBeDrawn) {
  std::mt19937 random(5);
  const auto below = [&](std::uint32_t bound) { return static_cast<int>(random() % bound); };
  std::map<Request::Kind, int> asked;
  int prompts = 0, pages = 0;
  for (int press_number = 0; press_number < 5'000 && !HasFailure(); ++press_number) {
    SCOPED_TRACE(press_number);
    const auto kind = static_cast<Key::Kind>(below(11));
    const auto one = static_cast<char32_t>(below(8) == 0 ? below(0x110000) : below(128));
    const Pressed pressed = press(view_, {kind, kind == Key::Kind::kLetter ? one : 0});
    if (pressed.request) ++asked[pressed.request->kind];
    if (pressed.request && below(2) == 0)
      take_answer(view_, *pressed.request, fail("E1503", "somebody was faster", "look"));
    else if (pressed.request)
      take_answer(view_, *pressed.request, nlohmann::json::parse(below(2) == 0 ? "{}" : "[1,{\"rows\":[{}]}]"));
    prompts += view_.prompt ? 1 : 0;
    pages += view_.page ? 1 : 0;
    const int columns = below(100), rows = below(30);
    expect_harmless(draw(view_, columns, rows, true), true);
  }
  for (const auto kind : {Request::Kind::kTrim, Request::Kind::kExplain})
    EXPECT_GT(asked[kind], 0) << "request " << static_cast<int>(kind) << " was never tried";
  EXPECT_GT(prompts, 0);
  EXPECT_GT(pages, 0);
}

TEST_F(Controls, AFilterThatCannotBeUnderstoodLeavesTheOldOne) {
  (void)letter(U'/');
  (void)type("tenant=nlp");
  EXPECT_EQ(shown_rows(view_).size(), 1U);
  (void)letter(U'/');
  EXPECT_EQ(view_.prompt->text, "tenant=nlp");  // to be changed, not typed again
  (void)letter(0x15);
  (void)type("used>4");
  EXPECT_TRUE(view_.message_is_bad);
  EXPECT_NE(view_.message.find("E1101"), std::string::npos);
  EXPECT_EQ(shown_rows(view_).size(), 1U);
  (void)press(view_, {Key::Kind::kEscape, 0});
  EXPECT_EQ(shown_rows(view_).size(), 4U);
}

TEST_F(Controls, LettersThatSteerAreNotTyped) {
  (void)letter(U'/');
  for (char32_t one = 0; one < 0x20; ++one)
    if (one != 0x15) (void)letter(one);
  EXPECT_EQ(view_.prompt->text, "");
  (void)letter(U'é');
  (void)letter(U'机');
  (void)press(view_, {Key::Kind::kBackspace, 0});
  EXPECT_EQ(view_.prompt->text, "é");
}

TEST_F(Controls, WhyIsOfTheLastDenialAndSaysWhenThereIsNone) {
  EXPECT_FALSE(letter(U'w').request);
  EXPECT_EQ(view_.message, "nlp/train has no denials.");
  (void)letter(U'j');
  const auto pressed = letter(U'w');
  ASSERT_TRUE(pressed.request);
  EXPECT_EQ(pressed.request->value, "d-17-17");
  take_answer(view_, *pressed.request,
              nlohmann::json{{"tenant", "vision"},
                             {"workload", "serve"},
                             {"requested_bytes", 1},
                             {"because", "its limit"},
                             {"fix", "ration set serve --limit 12GiB"}});
  const std::string text = draw(view_, 80, 24, true).text(false);
  EXPECT_NE(text.find("because  its limit"), std::string::npos);
  EXPECT_NE(text.find("fix      ration set serve"), std::string::npos);
  (void)press(view_, {Key::Kind::kEscape, 0});
  EXPECT_FALSE(view_.page);
}

TEST_F(Controls, AProcessOutsideHasNoLimitToSet) {
  (void)press(view_, {Key::Kind::kEnd, 0});
  EXPECT_EQ(selected(), "?/python");
  for (const char32_t one : {U's', U't', U'w'}) EXPECT_FALSE(letter(one).request);
  EXPECT_FALSE(view_.prompt);
  EXPECT_TRUE(view_.message_is_bad);
}

TEST_F(Controls, WhatTheDaemonRefusesIsShownAsItSaysIt) {
  Request request;
  request.kind = Request::Kind::kTrim;
  take_answer(view_, request, fail("E1511", "there is no such path", "ration ps"));
  EXPECT_EQ(view_.message, "E1511 there is no such path  ration ps");
  EXPECT_TRUE(view_.message_is_bad);
}

TEST_F(Controls, TheNumbersOfAnExplanationStandUnderEachOther) {
  const Pressed pressed = press(view_, {Key::Kind::kEnter, 0});
  ASSERT_TRUE(pressed.request);
  const auto part = [](const char* label, std::uint64_t gib) {
    return nlohmann::json{{"label", label}, {"bytes", gib * kGiB}, {"source", "SOURCE"}};
  };
  take_answer(
      view_, *pressed.request,
      nlohmann::json::array({{{"gpu", 0},
                              {"used_bytes", 12 * kGiB},
                              {"limit_bytes", 16 * kGiB},
                              {"rows",
                               {part("short", 1), part("a label that is longer than every other label of it", 2),
                                part("机器学习", 3)}}}}));
  ASSERT_TRUE(view_.page);
  std::vector<int> ends;
  for (const std::string& line : view_.page->lines)
    if (const auto at = line.find("  SOURCE"); at != std::string::npos) ends.push_back(width_of(line.substr(0, at)));
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[1], ends[2]);
}

TEST_F(Controls, EventsComeOnceAndTheOldestGo) {
  for (std::int64_t id = 1; id <= 300; ++id)
    for (int twice = 0; twice < 2; ++twice) take_event(view_, read_event({{"id", id}, {"text", "x"}}));
  EXPECT_EQ(view_.events.size(), View::kEventsKept);
  EXPECT_EQ(view_.events.back().id, 300);
}

}  // namespace
}  // namespace ration::top::testing
