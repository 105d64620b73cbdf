// What `ration run` agrees with a daemon: against one that says what the test tells it to.
#include "cli/start/admission.hpp"

#include <gtest/gtest.h>

#include "scripted_daemon.hpp"

namespace ration::cli {
namespace {

class AdmissionTest : public ScriptedDaemon {
 protected:
  static http::Response lease(const std::string& state, const json& more = json::object()) {
    json data{{"lease", "q-5"}, {"state", state}, {"gpus", json::array({0, 1})}, {"gpu", "auto"}, {"priority", 0},
              {"position", 1},  {"of", 1},        {"estimate_seconds", nullptr}};
    data.update(more);
    return {.body = json{{"data", data}}.dump()};
  }
  Result<Lease> wait(const std::string& longest = "") {
    RunOptions run;
    run.program = {"python", "train.py"};
    run.request.tenant = "nlp";
    run.wait = longest;
    testing::internal::CaptureStderr();
    auto granted = wait_for_lease(session_, *daemon_, run, 4_GiB);
    said_ = testing::internal::GetCapturedStderr();
    return granted;
  }

  std::string said_;
};

TEST_F(AdmissionTest, WhoIsGrantedAtOnceStartsWithoutAWord) {
  answer_with({}, {lease("granted")});
  const auto granted = wait();
  ASSERT_TRUE(granted) << granted.error().what;
  EXPECT_EQ(granted->id, "q-5");
  EXPECT_EQ(granted->gpus, "0,1");
  EXPECT_EQ(said_, "");
  EXPECT_EQ(bodies_[0]["bytes"], (4_GiB).count());
  EXPECT_EQ(bodies_[0]["tenant"], "nlp");
  EXPECT_EQ(bodies_[0]["name"], "python");
  EXPECT_EQ(bodies_[0]["gpu"], "auto");
  EXPECT_FALSE(bodies_[0].contains("wait"));
}

TEST_F(AdmissionTest, WhoWaitsIsToldForWhatAndThenWhere) {
  const json takers =
      json::array({{{"who", "vision"}, {"taken_bytes", (8_GiB).count()}, {"used_bytes", (1_GiB).count()}}});
  answer_with({},
              {lease("waiting", {{"reason", "its turn"}, {"taken_by", takers}}), lease("running", {{"gpus", {1}}})});
  const auto granted = wait();
  ASSERT_TRUE(granted) << granted.error().what;
  EXPECT_EQ(granted->gpus, "1");
  EXPECT_NE(said_.find("waiting for 4.00 GiB on any GPU"), std::string::npos) << said_;
  EXPECT_NE(said_.find("taken by  vision 8.00 GiB (promised; 1.00 GiB used)\n"), std::string::npos) << said_;
  EXPECT_NE(said_.find("started on GPU 1 after"), std::string::npos) << said_;
  EXPECT_EQ(asked_[1], "GET /api/v1/leases/q-5");
}

TEST_F(AdmissionTest, WhoseTimeHasPassedGivesThePlaceBackAndFails) {
  answer_with({}, {lease("over"), {.status = 204}});
  const auto granted = wait("1h");
  ASSERT_FALSE(granted);
  EXPECT_EQ(granted.error().id, "E1309");
  EXPECT_EQ(granted.error().exit_code, 124);
  EXPECT_EQ(bodies_[0]["wait"], "1h");
  EXPECT_EQ(asked_, (std::vector<std::string>{"POST /api/v1/leases", "DELETE /api/v1/leases/q-5"}));
}

TEST_F(AdmissionTest, AGrantThatWasNotTakenUpInTimeIsAskedForAnewByWhoWaitsForEver) {
  answer_with({}, {lease("over"), {.status = 204}, lease("granted")});
  ASSERT_TRUE(wait());
  ASSERT_EQ(bodies_.size(), 3U);
  EXPECT_NE(bodies_[0]["key"], bodies_[2]["key"]) << "the old key is that of the old place";
}

TEST_F(AdmissionTest, ADaemonThatForgotThePlaceIsAskedOnceMore) {
  answer_with({}, {lease("waiting"), http::problem({"E1526", "no such lease", "", 3}), lease("granted")});
  ASSERT_TRUE(wait());
  EXPECT_EQ(asked_.back(), "POST /api/v1/leases");
  EXPECT_EQ(bodies_[0]["key"], bodies_[2]["key"]);
}

TEST_F(AdmissionTest, ARefusalIsTheDaemonsOwn) {
  answer_with({}, {http::problem({"E1301", "more than the tenant may have", "ask for less", 4})});
  const auto granted = wait();
  ASSERT_FALSE(granted);
  EXPECT_EQ(granted.error().id, "E1301");
  EXPECT_EQ(granted.error().fix, "ask for less");
}

TEST_F(AdmissionTest, ABookIsRegisteredWithWhatIsPromisedToItAndTheTenantIsTheDaemons) {
  answer_with({}, {{.body = json{{"data", {{"tenant", "vision"}}}}.dump()}});
  admission::PlannedAccount promised{{}, 8_GiB, 2_GiB, std::nullopt, std::nullopt};
  admission::PlannedAccount plain{{}, 8_GiB, 0_GiB, std::nullopt, std::nullopt};
  promised.device.uuid = "GPU-1";
  plain.device.uuid = "GPU-2";
  admission::PlanRequest request;
  request.tenant = "nlp";
  const auto tenant = register_workload(*daemon_, "/run/x", "/run/x/a.book", request, "k=v", "q-5", {promised, plain});
  ASSERT_TRUE(tenant) << tenant.error().what;
  EXPECT_EQ(*tenant, "vision");
  EXPECT_EQ(bodies_[0]["guarantees"], (json{{"GPU-1", (2_GiB).count()}}));
  EXPECT_EQ(bodies_[0]["devices"], (json{"GPU-1", "GPU-2"}));
  EXPECT_EQ(bodies_[0]["lease"], "q-5");
}

TEST(TakersLine, NamesTheFirstEightAndCountsTheRest) {
  json rows = json::array();
  for (int i = 0; i < 11; ++i)
    rows.push_back({{"who", std::string(1, static_cast<char>('a' + i))}, {"taken_bytes", 1}});
  const std::string line = holders_line({}, {{"taken_by", rows}}, "by ");
  EXPECT_EQ(line.rfind("by a 1 B · b 1 B", 0), 0U) << line;
  EXPECT_NE(line.find(" · h 1 B · and 3 more\n"), std::string::npos) << line;
  EXPECT_EQ(holders_line({}, json::object(), "by "), "");
  EXPECT_EQ(holders_line({}, {{"taken_by", json::array()}}, "by "), "");
}

}  // namespace
}  // namespace ration::cli
