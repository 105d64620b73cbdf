// What `ration why` and `ration explain` make of a daemon's documents: sentences for people, with something to type.
#include <gtest/gtest.h>

#include "../temporary.hpp"
#include "cli/verbs/verbs.hpp"
#include "scripted_daemon.hpp"

namespace ration::cli {
namespace {

class ShownTest : public ScriptedDaemon {
 protected:
  std::string shown(const std::function<Result<int>()>& verb) {
    testing::internal::CaptureStdout();
    const auto done = verb();
    std::string said = testing::internal::GetCapturedStdout();
    return done ? said : said + done.error().id + " " + done.error().what;
  }
  std::string why_of(const std::string& what) {
    return shown([&] { return why(session_, what); });
  }
  std::string explained(const ExplainOptions& what) {
    return shown([&] { return explain(session_, what); });
  }

  TemporaryFolder runtime_folder_;
  TemporaryVariable runtime_{"RATION_RUNTIME_DIR", runtime_folder_.path().c_str()};
};

TEST_F(ShownTest, APlaceInTheQueueSaysForWhatItWaitsAndHowLongThatUsuallyTakes) {
  json lease{{"state", "waiting"}, {"tenant", "nlp"}, {"bytes", (8_GiB).count()}, {"reason", "2.00 GiB are missing"},
             {"position", 2},      {"of", 3},         {"estimate_seconds", 90},   {"estimate_of", 7}};
  json granted = lease;
  granted["state"] = "granted";
  answer_with({{"GET /api/v1/leases/q-5", answer(lease)}, {"GET /api/v1/leases/q-6", answer(granted)}});
  EXPECT_EQ(why_of("q-5"),
            "WAITING   q-5  nlp  8.00 GiB\n"
            "because  2.00 GiB are missing\n"
            "position 2 of 3\n"
            "estimate about 1m 30s (the median of 7 waits)\n"
            "fix      ration ps   shows who holds what; with a smaller --limit or another --gpu, the run might start "
            "sooner\n");
  EXPECT_EQ(why_of("q-6"), "GRANTED   q-6  nlp  8.00 GiB\n");
  EXPECT_EQ(why_of("q-7"), "E1801 nothing of that name");
}

TEST_F(ShownTest, AnEventIsToldWithWhatLedToIt) {
  const json before{{"id", 41}, {"type", "started"}, {"time", "10:00"}, {"text", "nlp started"}};
  answer_with({{"GET /api/v1/events/42/why", answer({{"id", 42},
                                                     {"type", "suspended"},
                                                     {"time", "10:01"},
                                                     {"text", "nlp was idle"},
                                                     {"denial", nullptr},
                                                     {"before", json::array({before})},
                                                     {"fix", "ration resume nlp"}})}});
  for (const char* number : {"42", "e-42"}) {
    const std::string told = why_of(number);
    EXPECT_EQ(
        told.rfind("SUSPENDED 10:01  event 42\nbecause  nlp was idle\nbefore   10:00  41 started: nlp started\n", 0),
        0U)
        << told;
    EXPECT_NE(told.find("fix      ration resume nlp"), std::string::npos);
  }
}

TEST_F(ShownTest, WhatIsNoNumberOfAnythingIsRefused) {
  answer_with({});
  for (const char* text : {"d-1", "d-x-y", "d--1"}) EXPECT_EQ(why_of(text).substr(0, 5), "E1412") << text;
}

TEST_F(ShownTest, WhereNothingWasDeniedThatIsSaid) {
  answer_with({{"GET /api/v1/events", answer(json::array())}});
  EXPECT_EQ(why_of(""), "E1413 nothing was denied.");
  EXPECT_EQ(why_of("vision/nlp"), "E1413 no denial of a workload 'vision/nlp' is recorded.");
}

json row(const char* id, const char* label, std::optional<Bytes> bytes) {
  json made{{"id", id}, {"label", label}, {"source", "the book"}, {"bytes_na", "nobody says"}};
  if (bytes) made["bytes"] = bytes->count();
  return made;
}

TEST_F(ShownTest, TheRowsOfADeviceAddUpToWhatIsUsedAndWhatIsFreeStandsBelow) {
  const json device{
      {"gpu", 0},
      {"uuid", "GPU-1"},
      {"name", "T4"},
      {"total_bytes", (16_GiB).count()},
      {"used_bytes", (4_GiB).count()},
      {"rows", json::array({row("nlp", "nlp", 1_GiB), row("x", "others", std::nullopt), row("free", "free", 12_GiB)})}};
  answer_with({{"GET /api/v1/snapshot", answer({{"devices", json::array({device})}})},
               {"GET /api/v1/devices/0/explain", answer(device)}});
  const std::string told = explained({});
  EXPECT_EQ(told.rfind("GPU 0 T4 - the parts of the 4.00 GiB in use (of 16.0 GiB)\n", 0), 0U) << told;
  EXPECT_NE(told.find("1.00 GiB   25%   the book\n"), std::string::npos) << told;
  EXPECT_NE(told.find("n/a         (nobody says)\n"), std::string::npos) << told;
  EXPECT_NE(told.find("12.0 GiB free\n"), std::string::npos) << told;
  EXPECT_EQ(told.find("  free "), std::string::npos) << "that is no part of what is used";
  EXPECT_EQ(explained({"", "3", ""}).substr(0, 5), "E1407");
}

TEST_F(ShownTest, ANumberIsAProcessAndOnlyThenAName) {
  answer_with({{"GET /api/v1/tenants/42/explain", answer({{"tenant", "42"}, {"devices", json::array()}})}});
  EXPECT_EQ(explained({"42", "", ""}), "tenant 42 holds no GPU memory.\n");
  EXPECT_EQ(asked_[0], "GET /api/v1/processes/42/explain");
  EXPECT_EQ(asked_[1], "GET /api/v1/workloads/42/explain");
  EXPECT_EQ(explained({"nothing", "", ""}), "E1801 no running workload or tenant is named 'nothing'.");
}

TEST_F(ShownTest, AProcessThatNobodyGovernsIsToldWithTheCommandThatWould) {
  const json held{{"gpu", 0}, {"device", "T4"}, {"used_bytes", (4_GiB).count()}};
  json document{{"governed", false},
                {"pid", 42},
                {"command", "python x;y.py"},
                {"user", "al"},
                {"container", nullptr},
                {"container_na", "in none"},
                {"origin", "cron.service"},
                {"policy", "warn"},
                {"devices", json::array({held})}};
  answer_with({{"GET /api/v1/processes/42/explain", answer(document)}});
  const std::string told = explained({"42", "", ""});
  EXPECT_EQ(told.rfind("pid 42 is not governed: no limit applies to it.\n", 0), 0U) << told;
  EXPECT_NE(told.find("  container  n/a (in none)\n"), std::string::npos) << told;
  EXPECT_NE(told.find("ration run --limit 4.5GiB -- python 'x;y.py'\n"), std::string::npos) << told;
  session_.output = "json";
  const json printed = json::parse(explained({"42", "", ""}));
  EXPECT_EQ(printed["schema"], "ration.explain_process/1");
  EXPECT_EQ(printed["source"], "daemon");
  EXPECT_EQ(printed["warnings"][0]["id"], "E1807");
}

}  // namespace
}  // namespace ration::cli
