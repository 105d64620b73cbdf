// The quick reader says what the tree's own reader says, also of texts that are broken.
#include "base/read_json.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace ration {
namespace {

using nlohmann::json;

const std::string& sample() {
  static const std::string kText = json{
      {"data",
       {{{"workload", "train \"ü\"\n\\"}, {"gpu", 0}, {"limit_bytes", std::numeric_limits<std::uint64_t>::max()}},
        {{"workload", nullptr}, {"gpu", -1}, {"share", 0.1}, {"on", true}, {"off", false}, {"rows", json::array()}},
        {{"nested", {{{"a", {1, 2.5e-300, {{"b", "c"}}}}, {"z", json::object()}}}}, {"smallest", INT64_MIN}}}},
      {"warnings", json::array()}}.dump();
  return kText;
}

void expect_same(const std::string& text) {
  const json ours = read_json(text), theirs = json::parse(text, nullptr, false);
  ASSERT_EQ(ours.is_discarded(), theirs.is_discarded()) << text;
  if (theirs.is_discarded()) return;
  ASSERT_EQ(ours, theirs) << text;
  ASSERT_EQ(ours.dump(), theirs.dump()) << "numbers of the same kinds, too: " << text;
}

TEST(ReadJson, SaysWhatTheOtherReaderSays) {
  for (const char* text : {"",
                           " ",
                           "{}",
                           "[]",
                           "0",
                           "-0",
                           "1e5",
                           "1.0",
                           "\"\"",
                           "null",
                           "nul",
                           "[1,]",
                           "{\"a\":1,\"a\":2}",
                           "[[[[[]]]]]",
                           "\"\\ud800\"",
                           "\"\\ud83d\\ude00\"",
                           "\"\xff\"",
                           "{\"a\"}",
                           "[1] x",
                           "18446744073709551616",
                           "01",
                           "\"\t\""})
    expect_same(text);
  expect_same(sample());
  EXPECT_TRUE(read_json(std::string("1\0", 2)).is_discarded());
}

TEST(ReadJson, SaysTheSameOfTextsThatAreBroken) {
  std::mt19937 random(11);
  const std::string letters = "{}[]\",:\\0123456789.eE+-tfn \xc3\xbc\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = sample();
    for (int change = 0; change < 1 + round % 3; ++change) {
      const std::size_t place = random() % text.size();
      if (random() % 3 == 0)
        text.erase(place, 1 + random() % 4);
      else
        text[place] = letters[random() % letters.size()];
    }
    expect_same(text);
  }
}

// What is passed over is not there, and nothing else is missing, whatever it holds and wherever it stands.
TEST(ReadJson, KeepsAllButWhatIsPassedOver) {
  const std::string_view unwanted[] = {"a", "deep"};
  const auto without = [&](auto&& self, nlohmann::json value) -> nlohmann::json {
    if (value.is_object())
      for (const std::string_view name : unwanted) value.erase(std::string(name));
    for (auto& each : value)
      if (each.is_structured()) each = self(self, each);
    return value;
  };
  std::mt19937 random(7);
  const auto grown = [&](auto&& self, int depth) -> nlohmann::json {
    const auto kind = random() % 6;
    if (depth == 0 || kind < 2) return kind == 0 ? nlohmann::json("a") : nlohmann::json(random() % 100);
    nlohmann::json value = kind < 4 ? nlohmann::json::array() : nlohmann::json::object();
    for (unsigned i = 0; i < random() % 4; ++i) {
      const char* const names[] = {"a", "b", "deep", "deeper"};
      if (value.is_array())
        value.push_back(self(self, depth - 1));
      else
        value[names[random() % 4]] = self(self, depth - 1);
    }
    return value;
  };
  for (int round = 0; round < 2'000; ++round) {
    const nlohmann::json whole = grown(grown, 5);
    EXPECT_EQ(read_json(whole.dump(), unwanted), without(without, whole)) << whole;
  }
  EXPECT_TRUE(read_json(R"({"a":[1,})", unwanted).is_discarded());
}

TEST(ReadJson, DepthCostsNoStack) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_TRUE(read_json(deep).is_array());
}

}  // namespace
}  // namespace ration
