#include "top/history.hpp"

#include "node.hpp"

namespace ration::top::testing {
namespace {

constexpr std::int64_t kNow = 1'000'000'000;

Model one(double used) { return read_snapshot(snapshot(nlohmann::json::array({row("nlp", "train", used, 16)}))); }
const std::string kKey =
    read_snapshot(snapshot(nlohmann::json::array({row("nlp", "train", 1, 16)}))).rows.front().key();

std::optional<Bytes> gib(std::uint64_t count) { return Bytes{count * kGiB}; }

TEST(TopHistory, APeakStaysVisibleHoweverFewColumnsThereAre) {
  History history;
  for (int second = 0; second < 600; ++second) history.add(one(second == 300 ? 9 : 1), kNow + second);
  for (const int columns : {1, 2, 7, 10, 59, 60}) {
    const auto seen = history.of_row(kKey, columns, kNow + 599);
    ASSERT_EQ(seen.size(), static_cast<std::size_t>(columns));
    EXPECT_EQ(std::count(seen.begin(), seen.end(), gib(9)), 1) << columns;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), gib(1)), columns - 1) << columns;
  }
}

TEST(TopHistory, WhatWasNotWatchedIsAbsent) {
  History history;
  history.add(one(1), kNow);
  history.add(one(2), kNow + 300);
  const auto seen = history.of_row(kKey, 60, kNow + 300);
  EXPECT_EQ(seen.back(), gib(2));
  EXPECT_EQ(seen[29], gib(1));
  EXPECT_EQ(std::count(seen.begin(), seen.end(), std::nullopt), 58);
  EXPECT_EQ(history.of_row(kKey, 60, kNow + 5000), std::vector<std::optional<Bytes>>(60));
  EXPECT_EQ(history.of_row("somebody else", 3, kNow), std::vector<std::optional<Bytes>>(3));
  EXPECT_TRUE(history.of_row(kKey, 0, kNow).empty());
}

TEST(TopHistory, WhatTheDaemonRecordedFillsTheBeginning) {
  History history;
  history.add(one(1), kNow);
  nlohmann::json maxima = nlohmann::json::array();
  for (std::uint64_t i = 0; i < 60; ++i) maxima.push_back(i < 10 ? nlohmann::json(nullptr) : nlohmann::json(i * kGiB));
  history.fill({{"gpu", nullptr},
                {"by", "workload"},
                {"step_seconds", 10.0},
                {"lines", nlohmann::json::array({{{"name", "nlp/train"}, {"maximum", maxima}}})}},
               one(1), kNow);
  const auto seen = history.of_row(kKey, 60, kNow);
  EXPECT_FALSE(seen[5]);
  EXPECT_EQ(seen[30], gib(31));  // the newest step of the answer is the one before this moment
  EXPECT_EQ(seen[58], gib(59));
  EXPECT_EQ(seen[59], gib(1));
}

TEST(TopHistory, AWorkloadOnSeveralDevicesTakesNoSumForItsOwn) {
  auto second = row("nlp", "train", 1, 16);
  second["gpu"] = 1;
  const Model model = read_snapshot(snapshot({row("nlp", "train", 1, 16), second}));
  nlohmann::json series{{"gpu", nullptr}, {"by", "workload"}, {"step_seconds", 10.0}};
  series["lines"] = nlohmann::json::array({{{"name", "nlp/train"}, {"maximum", {7 * kGiB, 7 * kGiB}}}});
  History history;
  history.fill(series, model, kNow);
  EXPECT_EQ(history.of_row(model.rows[0].key(), 1, kNow).front(), std::nullopt);
  series["gpu"] = 1;
  history.fill(series, model, kNow);
  EXPECT_EQ(history.of_row(model.rows[0].key(), 1, kNow).front(), std::nullopt);
  EXPECT_EQ(history.of_row(model.rows[1].key(), 1, kNow).front(), gib(7));
}

TEST(TopHistory, ATenantThatHasEndedIsStillThere) {
  History history;
  history.add(one(3), kNow);
  history.add(read_snapshot(snapshot(nlohmann::json::array())), kNow + 60);
  const auto tenants = history.of_tenants(0, 60, kNow + 60);
  ASSERT_EQ(tenants.count("nlp"), 1U);
  EXPECT_EQ(tenants.at("nlp")[53], gib(3));
  EXPECT_EQ(tenants.at("nlp")[59], std::nullopt);
  EXPECT_EQ(history.of_device(0, 60, kNow + 60)[59], gib(32));
  history.add(read_snapshot(snapshot(nlohmann::json::array())), kNow + 700);
  EXPECT_TRUE(history.of_tenants(0, 60, kNow + 700).empty());
}

TEST(TopHistory, AnAnswerForOneDeviceIsOfItsTenantsAndOfTheDevice) {
  History history;
  const auto answer = [](const char* by, const nlohmann::json& gpu, const char* name) {
    return nlohmann::json{{"by", by},
                          {"gpu", gpu},
                          {"step_seconds", 10.0},
                          {"lines", nlohmann::json::array({{{"name", name}, {"maximum", {5 * kGiB}}}})}};
  };
  for (const auto* by : {"tenant", "device"}) history.fill(answer(by, nullptr, "nlp"), one(1), kNow);
  EXPECT_TRUE(history.of_tenants(0, 1, kNow).empty());
  EXPECT_EQ(history.of_device(0, 1, kNow).front(), std::nullopt);
  history.fill(answer("tenant", 1, "nlp"), one(1), kNow);
  history.fill(answer("device", 1, "GPU-1"), one(1), kNow);
  EXPECT_EQ(history.of_tenants(1, 1, kNow).at("nlp").front(), gib(5));
  EXPECT_EQ(history.of_device(1, 1, kNow).front(), gib(5));
  EXPECT_EQ(history.of_device(0, 1, kNow).front(), std::nullopt);
}

TEST(TopHistory, ASecondHasTheColumnOfItsStep) {
  EXPECT_EQ(History::column_of(kNow, 60, kNow), 59);
  EXPECT_EQ(History::column_of(kNow - 300, 60, kNow), 29);
  EXPECT_EQ(History::column_of(kNow - 300, 120, kNow), 58);
  EXPECT_EQ(History::column_of(kNow - 600, 60, kNow), std::nullopt);
  EXPECT_EQ(History::column_of(kNow + 10, 60, kNow), std::nullopt);
}

TEST(TopHistory, AnyAnswerOfTheDaemonIsTaken) {
  History history;
  for (const char* text :
       {"null", "[]", "{}", R"({"step_seconds":0,"lines":[]})", R"({"step_seconds":"x","lines":3})",
        R"({"step_seconds":10,"lines":[1,null,{"name":"nlp/train"},{"name":"nlp/train","maximum":[-1,"x",{}]}]})"})
    history.fill(nlohmann::json::parse(text), one(1), kNow);
  EXPECT_EQ(history.of_row(kKey, 1, kNow).front(), std::nullopt);
}

}  // namespace
}  // namespace ration::top::testing
