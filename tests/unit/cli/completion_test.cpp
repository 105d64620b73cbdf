// What a shell is offered at TAB: the same as help says, and nothing that it would expand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "../temporary.hpp"
#include "admission/slices.hpp"
#include "cli/command_line.hpp"
#include "cli/session/scenario.hpp"
#include "cli/text/reference.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

class CompletionTest : public ::testing::Test {
 protected:
  struct Offer {
    int exit_code = -1;
    std::vector<std::string> words;
    std::string all;
    [[nodiscard]] bool has(const std::string& word) const {
      return std::find(words.begin(), words.end(), word) != words.end();
    }
  };
  Offer offer(const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    const auto done = candidates(session_, line_.app, words);
    Offer offered{done.value_or(-1), {}, testing::internal::GetCapturedStdout()};
    std::istringstream lines(offered.all);
    for (std::string each; std::getline(lines, each);) offered.words.push_back(each.substr(0, each.find('\t')));
    return offered;
  }

  TemporaryFolder folder_;
  TemporaryVariable runtime_{"RATION_RUNTIME_DIR", folder_.path().c_str()};
  CommandLine line_{Arguments{"candidates", {}, {}, true}};
  Session session_;
};

constexpr int kFileNames = 10, kProgram = 11;

TEST_F(CompletionTest, TheFirstWordIsAVerbWithItsMeaning) {
  const Offer offered = offer({""});
  EXPECT_EQ(offered.exit_code, 0);
  for (const VerbText& verb : verb_texts()) EXPECT_TRUE(offered.has(verb.name)) << verb.name;
  EXPECT_FALSE(offered.has("candidates")) << "that one is for shells";
  EXPECT_NE(offered.all.find("ps\tshow who uses how much memory\n"), std::string::npos);
}

TEST_F(CompletionTest, AfterAVerbItsOptionsAreOffered) {
  const Offer offered = offer({"ps", "--"});
  for (const std::string& option : long_options(*find_verb(line_.app, "ps")))
    EXPECT_TRUE(offered.has(option)) << option;
  EXPECT_FALSE(offered.has("--guarantee"));
  EXPECT_TRUE(offer({"nothing", ""}).words.empty());
}

TEST_F(CompletionTest, AValueIsOneOfItsOptionsChoices) {
  EXPECT_EQ(offer({"ps", "--output", ""}).words, (std::vector<std::string>{"csv", "json", "jsonl", "text"}));
  EXPECT_EQ(offer({"ps", "-o", ""}).words, (std::vector<std::string>{"csv", "json", "jsonl", "text"}));
  EXPECT_EQ(offer({"ps", "--color=a"}).words,
            (std::vector<std::string>{"--color=always", "--color=auto", "--color=never"}));
  EXPECT_TRUE(offer({"ps", "--nothing=a"}).words.empty());
}

TEST_F(CompletionTest, AFlagTakesNoValue) {
  EXPECT_TRUE(offer({"top", "--once", "--"}).has("--filter"));
  EXPECT_EQ(offer({"ps", "--json", "--"}).exit_code, 0);
}

TEST_F(CompletionTest, WhatIsNoListOfNamesIsAFile) {
  EXPECT_EQ(offer({"serve", "--socket", ""}).exit_code, kFileNames);
  EXPECT_EQ(offer({"config", "validate", ""}).exit_code, kFileNames);
  EXPECT_EQ(offer({"run", "--limit", "1GiB", ""}).exit_code, kFileNames) << "the program may follow without --";
}

TEST_F(CompletionTest, BehindTheMarkStandsTheProgram) {
  EXPECT_EQ(offer({"run", "--limit", "1GiB", "--", ""}).exit_code, kProgram);
  EXPECT_EQ(offer({"run", "--", "python", "--out"}).exit_code, kProgram);
  EXPECT_TRUE(offer({"run", "--"}).has("--limit")) << "which is not typed to its end";
}

TEST_F(CompletionTest, SlicesTopicsAndScenariosAreNamed) {
  const auto store = session_.store();
  ASSERT_TRUE(store);
  machine::Device device;
  device.uuid = "GPU-1";
  ASSERT_TRUE(admission::write_slices(*store, device, {{"half", "GPU-1", Bytes{1U << 30}, false}}));
  EXPECT_EQ(offer({"run", "--slice", ""}).words, std::vector<std::string>{"half"});
  EXPECT_TRUE(offer({"help", ""}).has("units"));
  EXPECT_TRUE(offer({"help", ""}).has("run"));
  EXPECT_EQ(offer({"completion", ""}).words, (std::vector<std::string>{"bash", "fish", "zsh"}));
  EXPECT_EQ(offer({"demo", "--scenario", ""}).words, scenario_names());
}

TEST_F(CompletionTest, AnyLineCanBeCompleted) {
  std::vector<std::string> pieces{
      "", "-", "--", "---", "=", "--=", "--output=", "-o", "'", "x", "--once", "--slice", "--help"};
  for (const VerbText& verb : verb_texts()) pieces.emplace_back(verb.name);
  for (const std::string& option : long_options(*find_verb(line_.app, "run"))) pieces.push_back(option);
  // What the daemon or the driver would be asked for has its own tests.
  std::erase_if(pieces, [](const std::string& piece) { return piece == "--gpu" || piece == "--tenant"; });
  const std::vector<std::string> asks{"stop", "trim",    "suspend", "resume", "recommend", "set",
                                      "ps",   "explain", "why",     "split",  "report",    "idle"};
  std::erase_if(pieces,
                [&](const std::string& piece) { return std::find(asks.begin(), asks.end(), piece) != asks.end(); });
  std::mt19937 random(14);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> words;
    for (auto many = random() % 6; many > 0; --many) words.push_back(pieces[random() % pieces.size()]);
    const int code = offer(words).exit_code;
    EXPECT_TRUE(code == 0 || code == kFileNames || code == kProgram) << fmt::format("{}", fmt::join(words, " "));
  }
}

TEST(Completion, EachShellHasAScriptThatAsksForCandidates) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(completion(shell).value_or(-1), 0);
    EXPECT_NE(testing::internal::GetCapturedStdout().find("candidates --"), std::string::npos);
  }
  const auto none = completion("tcsh");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().id, "E1423");
}

}  // namespace
}  // namespace ration::cli
