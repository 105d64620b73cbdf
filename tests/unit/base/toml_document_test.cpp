// Any bytes are a document or a problem with its place, and what is read knows where it stood.
#include "base/toml_document.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ration {
namespace {

std::string place_of_problem(const std::string& text) {
  const auto read = read_toml(text, "f");
  return read ? "read" : place_text(read.error()) + " " + read.error().what;
}

/// Every place in the tree lies in the text.
void expect_places(const TomlValue& value, std::string_view text) {
  std::vector<std::size_t> lengths{0};
  for (const char letter : text)
    if (letter == '\n')
      lengths.push_back(0);
    else
      ++lengths.back();
  const auto expect = [&](const FilePlace& place) {
    ASSERT_GE(place.line, 1U);
    ASSERT_LE(place.line, lengths.size());
    EXPECT_GE(place.column, 1U);
    EXPECT_LE(place.column, lengths[place.line - 1] + 2);
  };
  expect(value.key);
  expect(value.place);
  for (const TomlValue& item : value.items) expect_places(item, text);
}

constexpr std::string_view kDocument =
    "a = 1\n"
    "  name = \"two words\" # why\n"
    "flags = [true, false]\n"
    "[[tenant]]\n"
    "limit = \"4GiB\"\n"
    "[[tenant]]\n"
    "match = { users = [\"al\", 'bo'], x.y = 2.5 }\n";

TEST(TomlDocument, EveryKeyAndValueKnowsItsLineAndColumn) {
  const auto read = read_toml(kDocument, "f");
  ASSERT_TRUE(read) << read.error().what;
  const TomlValue* name = read->find("name");
  ASSERT_NE(name, nullptr);
  EXPECT_EQ(name->kind, TomlValue::Kind::kText);
  EXPECT_EQ(name->text, "two words");
  EXPECT_EQ(name->key.line, 2U);
  EXPECT_EQ(name->key.column, 3U);
  EXPECT_EQ(name->place.column, 10U);
  ASSERT_EQ(read->find("flags")->items.size(), 2U);
  EXPECT_EQ(read->find("flags")->items[1].text, "false");
  EXPECT_EQ(read->find("flags")->items[1].place.column, 16U);
  const TomlValue* tenants = read->find("tenant");
  ASSERT_EQ(tenants->items.size(), 2U);
  const TomlValue* match = tenants->items[1].find("match");
  EXPECT_EQ(match->kind, TomlValue::Kind::kTable);
  EXPECT_EQ(match->find("users")->items[1].text, "bo");
  EXPECT_EQ(match->find("users")->place.line, 7U);
  EXPECT_EQ(match->find("nobody"), nullptr);
}

TEST(TomlDocument, TheUsualMistakesAreExplained) {
  const auto size = read_toml("[[tenant]]\nguarantee = 6GiB   # of vision\n", "f");
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error().what, "a size is a text in quotes");
  EXPECT_EQ(size.error().fix, "guarantee = \"6GiB\"");
  EXPECT_EQ(size.error().place.line, 2U);
  const auto quotes = read_toml("limit = \u201c6GiB\u201d\n", "f");
  ASSERT_FALSE(quotes);
  EXPECT_EQ(quotes.error().what, "these are not straight quotes");
  EXPECT_FALSE(read_toml("limit = " + std::string(100'000, '6') + "GiB\n", "f"));
}

TEST(TomlDocument, ItemsStandInTheOrderOfTheDocument) {
  const auto read = read_toml("z = 1\ny = 2\n[x]\n[w]\n[v]\n", "f");
  ASSERT_TRUE(read);
  std::string names;
  for (const TomlValue& item : read->items) names += item.name;
  EXPECT_EQ(names, "zyxwv");
}

TEST(TomlDocument, WhatIsWrongIsToldWhereItBegins) {
  EXPECT_EQ(place_of_problem("a = 1\nb = [1,\n 2\n"), "f:2:5 '[' is never closed");
  EXPECT_EQ(place_of_problem("a = 1\nb = \"x\n"), "f:2:5 this text has no end on its line");
  EXPECT_EQ(place_of_problem("a = 1]\n"), "f:1:6 ']' closes nothing");
  EXPECT_EQ(place_of_problem("a = \"\xff\"\n"), "f:1:6 this is not UTF-8 text");
  EXPECT_EQ(place_of_problem("a = { b = 1\n}\n"), "f:1:5 this table in braces has no end on its line");
  EXPECT_EQ(place_of_problem("a = \n").substr(0, 4), "f:1:");
}

TEST(TomlDocument, DepthAndSizeAreBounded) {
  EXPECT_EQ(place_of_problem("a = " + std::string(16, '[') + std::string(16, ']')), "read");
  EXPECT_EQ(place_of_problem("a = " + std::string(17, '[') + std::string(17, ']')),
            "f:1:21 brackets are nested too deep");
  std::string dots = "a";
  for (int i = 0; i < 17; ++i) dots += ".a";
  EXPECT_EQ(place_of_problem(dots + " = 1").substr(0, 4), "f:1:");
  EXPECT_EQ(place_of_problem(std::string(kMaxDocument + 1, '\n')), "f:1:1 the file is larger than 256 KiB");
  EXPECT_EQ(place_of_problem("\xef\xbb\xbf"), "read") << "nothing but a byte order mark";
}

TEST(TomlDocument, AnyBytesAreADocumentOrAProblemInIt) {
  std::mt19937 random(6);
  constexpr std::string_view kPieces[] = {"[",    "]",          "[[", "]]",       "{",    "}",      "=",  ".",  ",",
                                          "\"",   "'",          "#",  "\n",       "\r\n", " ",      "a",  "1",  "-",
                                          "true", "1979-05-27", "\\", "\xc3\xa4", "\xff", "\"\"\"", "0x", "e5", "_"};
  int documents = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text(round % 2 == 0 ? kDocument : std::string_view());
    for (auto changes = 1 + random() % 8; changes > 0; --changes) {
      const std::size_t at = text.empty() ? 0 : random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, random() % 5);
      else
        text.insert(at, kPieces[random() % std::size(kPieces)]);
    }
    const auto read = read_toml(text, "f");
    documents += read ? 1 : 0;
    if (read)
      expect_places(*read, text);
    else
      EXPECT_FALSE(read.error().what.empty()) << text;
    if (!read) expect_places(TomlValue{{}, {}, {}, {}, read.error().place, {}}, text);
  }
  EXPECT_GT(documents, 1000);
  EXPECT_LT(documents, 19'000);
}

}  // namespace
}  // namespace ration
