// Claims of container engines: what is kept for them, what their containers share, and what stays over a restart.
#include <fstream>
#include <random>

#include "invented_node.hpp"
#include "node/promises/claims_requests.hpp"

namespace ration::node {
namespace {

class ClaimsTest : public InventedNode {
 protected:
  ClaimSubjects claim_subjects() {
    return {engine_->moment(), engine_->subjects().claims, engine_->subjects().promises, ""};
  }
  void start_with_state() {
    options_.state_folder = folder_;
    start();
    (void)tick();
  }
  ContainerClaim wish(const std::string& id, Bytes limit, Bytes guarantee) const {
    return {id, "ml/" + id, "nlp", "", {{device_.uuid, limit, guarantee}}};
  }
  Result<ContainerClaim> grant(const std::string& id, Bytes limit, Bytes guarantee) {
    Events events;
    auto granted = grant_claim(claim_subjects(), wish(id, limit, guarantee), events);
    events_ += events.size();
    return granted;
  }
  std::string error_of(const std::string& id, Bytes limit, Bytes guarantee) {
    const auto granted = grant(id, limit, guarantee);
    return granted ? "" : granted.error().id;
  }
  Bytes available() {
    (void)tick();
    return engine_->snapshot().devices[0].available;
  }

  std::size_t events_ = 0;
};

TEST_F(ClaimsTest, IsKeptFromOthersUntilItIsGivenBack) {
  start_with_state();
  ASSERT_TRUE(grant("one", 12_GiB, 12_GiB));
  EXPECT_EQ(available(), 4_GiB);
  EXPECT_EQ(error_of("two", 6_GiB, 6_GiB), "E1304");
  EXPECT_EQ(error_of("two", 6_GiB, 4_GiB), "") << "what is not guaranteed may be more than there is";
  Events events;
  ASSERT_TRUE(release_claim(engine_->subjects().claims, "one", events));
  ASSERT_TRUE(release_claim(engine_->subjects().claims, "one", events));
  EXPECT_EQ(events.size(), 1U);
  EXPECT_EQ(available(), 12_GiB);
}

TEST_F(ClaimsTest, OfTheSameAgainNothingChangesAndOtherContentIsRejected) {
  start_with_state();
  for (int times = 0; times < 3; ++times) ASSERT_TRUE(grant("one", 12_GiB, 12_GiB));
  EXPECT_EQ(events_, 1U);
  EXPECT_EQ(available(), 4_GiB);
  EXPECT_EQ(error_of("one", 11_GiB, 11_GiB), "E1713");
}

TEST_F(ClaimsTest, RejectsWhatNoContainerCouldHold) {
  start_with_state();
  EXPECT_EQ(error_of("one", 17_GiB, 1_GiB), "E1104");
  EXPECT_EQ(error_of("one", Bytes{1}, Bytes{1}), "E1105");
  EXPECT_EQ(error_of("one", 1_GiB, 2_GiB), "E1305");
  EXPECT_EQ(error_of("-one", 1_GiB, 1_GiB), "E1521");
  EXPECT_EQ(error_of("one+two", 1_GiB, 1_GiB), "E1521");
  EXPECT_EQ(error_of(std::string(64, 'a'), 1_GiB, 1_GiB), "E1521");
  machine::remember_context_cost(device_, engine_->snapshot().driver_version, options_.runtime_folder, 500_MiB);
  Events events;
  EXPECT_EQ(
      grant_claim(claim_subjects(), {"one", "ml/one", "nlp", "", {{"GPU-none", 1_GiB, 1_GiB}}}, events).error().id,
      "E1407");
  EXPECT_TRUE(engine_->subjects().claims.all().empty());
}

TEST_F(ClaimsTest, WhatItsContainerIsPromisedIsNotCountedTwice) {
  start_with_state();
  ASSERT_TRUE(grant("one", 12_GiB, 12_GiB));
  Program& program = run("web", 12_GiB, 12_GiB, book::OnDeny::kFail, "claims=one");
  EXPECT_EQ(available(), 4_GiB);
  ASSERT_TRUE(program.take(12_GiB)) << "it is kept for it";
  EXPECT_EQ(limit_of(program).in_force, 12_GiB);
}

TEST_F(ClaimsTest, SurvivesARestartAndADamagedFileIsTold) {
  start_with_state();
  ASSERT_TRUE(grant("one", 12_GiB, 8_GiB));
  const ContainerClaims again(folder_ + "/claims.json");
  ASSERT_NE(again.find("one"), nullptr);
  EXPECT_EQ(*again.find("one"), wish("one", 12_GiB, 8_GiB));
  std::ofstream(folder_ + "/claims.json") << R"([{"id":"../x","name":"n","tenant":"t","on_deny":"","devices":[]}])";
  const ContainerClaims damaged(folder_ + "/claims.json");
  EXPECT_TRUE(damaged.all().empty());
  EXPECT_NE(damaged.damage(), "");
}

TEST_F(ClaimsTest, ATenantsClaimsStayWithinItsLimit) {
  options_.state_folder = folder_;
  start("[[tenant]]\nname = \"nlp\"\nlimit = \"6GiB\"\n");
  (void)tick();
  EXPECT_EQ(error_of("one", 7_GiB, 1_GiB), "E1104");
  EXPECT_EQ(error_of("one", 4_GiB, 4_GiB), "");
  EXPECT_EQ(error_of("two", 4_GiB, 3_GiB), "E1104");
  EXPECT_EQ(error_of("two", 4_GiB, 2_GiB), "");
}

TEST_F(ClaimsTest, NobodyElseEntersAClaim) {
  start_with_state();
  ASSERT_TRUE(grant("one", 4_GiB, 4_GiB));
  EXPECT_EQ(engine_->subjects().claims.of_workload(::getuid(), "a=b,claims=none+one", device_.uuid).size(), 1U);
  EXPECT_TRUE(engine_->subjects().claims.of_workload(::getuid() + 1, "claims=one", device_.uuid).empty());
  EXPECT_TRUE(engine_->subjects().claims.of_workload(::getuid(), "claims=one", "GPU-other").empty());
}

// Three containers of one claim and one of two, which take and give back at random.
TEST_F(ClaimsTest, ItsContainersNeverHoldMoreThanItTogether) {
  start_with_state();
  ASSERT_TRUE(grant("one", 4_GiB, 2_GiB));
  ASSERT_TRUE(grant("two", 2_GiB, 2_GiB));
  std::vector<std::pair<Program*, Bytes>> held;
  std::mt19937 draw(7);
  std::size_t granted = 0;
  for (const char* claims : {"claims=one", "claims=one", "claims=one", "claims=one+two"}) {
    const bool both = held.size() == 3;
    held.emplace_back(&run("c" + std::to_string(held.size()), both ? 6_GiB : 4_GiB, 2_GiB, book::OnDeny::kFail, claims),
                      0_GiB);
    (void)tick();  // as its hook waits for it
    for (int step = 0; step < 200; ++step) {
      auto& [program, bytes] = held[draw() % held.size()];
      const Bytes change{(draw() % 4 + 1) * (std::uint64_t{256} << 20)};
      if (draw() % 2 == 0 && bytes >= change) {
        program->give_back(change);
        bytes = bytes - change;
      } else if (program->take(change)) {
        bytes += change;
        ++granted;
      } else {
        program->deny(change);
      }
      Bytes together;
      for (const auto& each : held) together += each.second;
      EXPECT_LE(together, both ? 6_GiB : 4_GiB);
      if (draw() % 3 == 0) (void)tick();
    }
  }
  EXPECT_GT(granted, 100U);
}

}  // namespace
}  // namespace ration::node
