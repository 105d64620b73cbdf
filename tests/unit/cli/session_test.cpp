// How everything is printed: aligned for people, exact for programs, and nothing that a terminal obeys.
#include "cli/session/session.hpp"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "../temporary.hpp"
#include "base/printable.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace ration::cli {
namespace {

using namespace literals;

template <class Print>
std::string printed(Print print) {
  testing::internal::CaptureStdout();
  print();
  return testing::internal::GetCapturedStdout();
}

/// As RFC 4180 says.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quoted && letter == '"' && i + 1 < text.size() && text[i + 1] == '"')
      rows.back().back() += text[++i];
    else if (letter == '"')
      quoted = !quoted;
    else if (!quoted && letter == ',')
      rows.back().emplace_back();
    else if (!quoted && (letter == '\n' || letter == '\r'))
      rows.push_back({""});
    else
      rows.back().back() += letter;
  }
  rows.pop_back();  // behind the last line end
  return rows;
}

TEST(Table, ACellIsReadBackFromCsvWhateverIsInIt) {
  constexpr std::string_view kLetters = "a,\"\n\r ;\t'\xc3\xa4";
  std::mt19937 random(15);
  for (int round = 0; round < 200; ++round) {
    Table table({{"ONE", "one"}, {"TWO", "two", true}});
    std::vector<std::vector<std::string>> meant{{"one", "two"}};
    for (auto rows = random() % 4; rows > 0; --rows) {
      std::vector<std::string> row(2);
      for (std::string& cell : row)
        for (auto length = random() % 6; length > 0; --length) cell += kLetters[random() % kLetters.size()];
      meant.push_back(row);
      table.add(row);
    }
    EXPECT_EQ(read_csv(printed([&] { table.print(Format::kCsv); })), meant);
  }
}

TEST(Table, ColumnsStandUnderTheirTitlesWhateverLettersAreInThem) {
  Table table({{"NAME", "name"}, {"USED", "used", true}, {"NOTE", "note"}});
  EXPECT_TRUE(table.empty());
  table.add({"a", "1.00 GiB", "x"});
  table.add({"größer·→", "10 B", ""});
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(printed([&] { table.print(Format::kText); }),
            "NAME          USED  NOTE\n"
            "a         1.00 GiB  x\n"
            "größer·→      10 B\n");
}

TEST(Session, FormatsAndUnitsAreThoseThatWereAskedFor) {
  Session session;
  EXPECT_EQ(session.format(), Format::kText);
  EXPECT_EQ(session.size(3_GiB), "3.00 GiB");
  session.units = "si";
  EXPECT_EQ(session.size(Bytes{3'000'000'000}), "3.00 GB");
  session.units = "bytes";
  EXPECT_EQ(session.size(5_B), "5");
  session.units = "iec";
  session.output = "csv";
  EXPECT_EQ(session.size(1_MiB), "1048576") << "a spreadsheet wants the number";
  session.output = "jsonl";
  EXPECT_EQ(session.format(), Format::kJson);
  EXPECT_EQ(Session().size(std::nullopt, "nobody says"), "n/a (nobody says)");
}

TEST(Session, WhatStrangersSayCannotSteerATerminal) {
  Session session;
  session.context.simulated = "T4";
  EXPECT_EQ(session.shown("bad\033[2J name\nration ps"), "bad?[2J name\nration ps --sim=T4");
  EXPECT_EQ(session.shown(""), "");
  EXPECT_EQ(session.shown("a\n\nb\n"), "a\n\nb\n");
  std::mt19937 random(16);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length) text += static_cast<char>(random());
    std::string shown = session.shown(text);
    std::erase(shown, '\n');
    EXPECT_TRUE(is_printable(shown));
  }
}

TEST(Session, ColoursAreForTerminalsThatWantThem) {
  const TemporaryVariable none("NO_COLOR", nullptr), forced("CLICOLOR_FORCE", nullptr);
  Session session;
  session.colour = "always";
  EXPECT_EQ(session.painted("x", 31), "\033[31mx\033[0m");
  session.colour = "never";
  EXPECT_EQ(session.painted("x", 31), "x");
  session.colour = "auto";
  {
    const TemporaryVariable force("CLICOLOR_FORCE", "1");
    EXPECT_EQ(session.painted("x", 31), "\033[31mx\033[0m");
    const TemporaryVariable no("NO_COLOR", "1");
    EXPECT_EQ(session.painted("x", 31), "x");
  }
}

TEST(Session, ADocumentSaysWhatItIsAndItsCommandsAreAboutTheNode) {
  Session session;
  session.simulated = true;
  session.context.simulated = "T4";
  const std::string line = printed([&] { session.print_json("ps", {{{"fix", "ration ps"}, {"name", "\xff"}}}); });
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto document = nlohmann::json::parse(line);
  EXPECT_EQ(document["schema"], "ration.ps/1");
  EXPECT_EQ(document["source"], "sim");
  EXPECT_EQ(document["data"][0]["fix"], "ration ps --sim=T4");
}

TEST(Session, AnErrorIsADocumentTooWhereOneWasAskedFor) {
  Session session;
  session.output = "json";
  testing::internal::CaptureStderr();
  const auto document = nlohmann::json::parse(printed([&] {
    session.print_error("ps", Error{"E1403", "no driver", "ration doctor", 3});
  }));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "E1403 ration: no driver\n      ration doctor\n");
  EXPECT_EQ(document["error"]["id"], "E1403");
  EXPECT_EQ(document["error"]["exit_code"], 3);
}

TEST(Session, AboutABookOfASimulatedNodeItIsThatNode) {
  book::BookSnapshot book;
  EXPECT_FALSE(Session().about(book).simulated);
  book.simulation = "L4";
  const Session about = Session().about(book);
  EXPECT_TRUE(about.simulated);
  EXPECT_EQ(about.hint("ration ps"), "ration ps --sim=L4");
  Session own;
  own.simulated = true;
  own.simulated_node = "T4";
  EXPECT_EQ(own.about(book).simulated_node, "T4") << "what was typed goes first";
}

TEST(Session, ATimeIsToldInUtcToTheMillisecond) {
  EXPECT_EQ(utc(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(utc(1'768'392'238'214'999'999), "2026-01-14T12:03:58.214Z");
}

TEST(Session, WithoutATerminalOnlyYesIsAnAnswer) {
  Session session;
  testing::internal::CaptureStderr();
  const auto refused = agree_to_shrink(session, "nlp", 4_GiB, 3_GiB, "ration set nlp --limit 3GiB --yes");
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "nlp holds 4.00 GiB, 1.00 GiB more than the new limit. Allocations are denied until it holds less than 3.00 "
      "GiB.\n");
  if (refused) GTEST_SKIP() << "somebody is at a terminal";
  EXPECT_EQ(refused.error().id, "E1205");
  session.yes = true;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(agree_to_shrink(session, "nlp", 4_GiB, 3_GiB, ""));
  (void)testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace ration::cli
