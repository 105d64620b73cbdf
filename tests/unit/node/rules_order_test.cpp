// The order in which a tick runs its rules (rules.cpp): for each rule that needs what another has done in the same
// tick, what is seen by the end of that tick. With the two exchanged it is seen a tick later, or something wrong is
// told.
#include "book/store_limits.hpp"
#include "invented_node.hpp"
#include "node/limits/unwatched_changes.hpp"
#include "node/residency/residency.hpp"

namespace ration::node {
namespace {

class RulesOrder : public InventedNode {
 protected:
  /// Restarts the daemon with what it keeps.
  void start_anew() {
    engine_.reset();
    prepare_options();
    options_.state_folder = folder_;
    start();
  }
  static Bytes limit_in_book(const Program& program) { return program.book.account(0).limits().given; }
};

TEST_F(RulesOrder, AScheduleComesBeforeTheBalance) {
  start(
      "[[tenant]]\nname = \"nlp\"\nlimit = \"8GiB\"\n[[schedule]]\nwhen = \"22:00-07:00\"\nset = { nlp = \"14GiB\" "
      "}\n");
  Program& train = run("train", 16_GiB);
  for (int quarter = 0; quarter < 3 * 24 * 4; ++quarter) {
    now_ns_ += 15 * 60 * kSecond;
    (void)tick();
    EXPECT_EQ(format_size(limit_in_book(train)),
              engine_->subjects().tenants.find("nlp")->limit.text == "8GiB" ? "8.00 GiB" : "14.0 GiB");
  }
}

TEST_F(RulesOrder, WhatWasAskedWhileNoDaemonRanComesBeforeTampering) {
  start_anew();
  Program& train = run("train", 8_GiB);
  (void)tick();
  engine_.reset();
  train.book.account(0).set_limit(4_GiB);
  struct stat status {};
  ASSERT_EQ(::stat(train.path.c_str(), &status), 0);
  book::BookReader reader;
  ASSERT_EQ(book::BookReader::open(train.path.c_str(), reader), book::BookStatus::kOk);
  UnwatchedChanges changes;
  changes[train.path] = {reader.file_number(), now_ns_, {{0, {4_GiB, std::nullopt}}}, std::nullopt};
  ASSERT_TRUE(write_unwatched_changes(folder_, changes));
  start_anew();
  const Events events = tick();
  EXPECT_EQ(count(events, "resized"), 1U);
  EXPECT_EQ(count(events, "violation"), 0U);
  EXPECT_EQ(limit_in_book(train), 4_GiB);
}

TEST_F(RulesOrder, AStartIsToldBeforeADenial) {
  start();
  Program& train = run("train", 4_GiB);
  train.deny(5_GiB);
  std::vector<std::string> types;
  for (const Event& event : tick()) types.emplace_back(name_of(event.type));
  EXPECT_EQ(types, (std::vector<std::string>{"started", "denied"}));
}

TEST_F(RulesOrder, AStartComesBeforeTheBalance) {
  start();
  run("guaranteed", 8_GiB, 8_GiB);
  (void)tick();
  (void)tick();
  Program& late = run("late", 16_GiB);
  (void)tick();
  EXPECT_EQ(limit_in_book(late), 8_GiB) << "it sizes itself by its limit when it starts";
}

TEST_F(RulesOrder, ADenialComesBeforeTheBalance) {
  start();
  Program& guaranteed = run("guaranteed", 8_GiB, 8_GiB);
  Program& busy = run("busy", 16_GiB);
  Program& quiet = run("quiet", 16_GiB);
  (void)tick();
  (void)tick();
  const Bytes before = limit_in_book(busy);
  EXPECT_EQ(before, limit_in_book(quiet)) << "what is left is shared evenly";
  ASSERT_TRUE(busy.take(before));
  driver_sees({{&guaranteed, Bytes{0}}, {&busy, before}});
  busy.deny(1_GiB);
  (void)tick();
  EXPECT_GE(limit_in_book(busy), before + 1_GiB) << "it asks, the other does not";
}

TEST_F(RulesOrder, TamperingIsJudgedBeforeTheBalanceMovesLimits) {
  start();
  Program& burst = run("burst", 16_GiB);
  (void)tick();
  run("guaranteed", 8_GiB, 8_GiB);
  for (int ticks = 0; ticks < 4; ++ticks) EXPECT_EQ(count(tick(), "violation"), 0U);
  EXPECT_EQ(limit_in_book(burst), 8_GiB) << "it was moved";
}

TEST_F(RulesOrder, TamperingIsJudgedBeforeASuspensionTakesAGuarantee) {
  start();
  Program& train = run("train", 8_GiB, 4_GiB);
  ASSERT_TRUE(train.take(2_GiB));
  driver_sees({{&train, 2_GiB}});
  (void)tick();
  ASSERT_TRUE(engine_->subjects().residency.begin_suspension(engine_->moment(),
                                                             engine_->registry().workloads().at(train.path), true));
  driver_sees({});
  const Events events = tick();
  EXPECT_EQ(count(events, "suspended"), 1U);
  EXPECT_EQ(count(events, "violation"), 0U);
  EXPECT_EQ(count(tick(), "violation"), 0U);
}

TEST_F(RulesOrder, ASuspensionComesBeforeTheBalance) {
  start();
  Program& leaves = run("leaves", 12_GiB, 12_GiB);
  Program& stays = run("stays", 16_GiB);
  ASSERT_TRUE(leaves.take(2_GiB));
  driver_sees({{&leaves, 2_GiB}});
  (void)tick();
  (void)tick();
  EXPECT_EQ(limit_in_book(stays), 4_GiB);
  ASSERT_TRUE(engine_->subjects().residency.begin_suspension(engine_->moment(),
                                                             engine_->registry().workloads().at(leaves.path), true));
  driver_sees({});
  (void)tick();
  EXPECT_EQ(limit_in_book(stays), 16_GiB) << "nothing is kept for it meanwhile";
}

TEST_F(RulesOrder, UnrequestedMemoryIsMeasuredBeforeOveruseIsCounted) {
  start();
  Program& train = run("train", 16_GiB);
  ASSERT_TRUE(train.take(1_GiB));
  driver_sees({{&train, 4_GiB}});
  for (int ticks = 0; ticks < 3; ++ticks) (void)tick();
  EXPECT_EQ(train.book.account(0).unrequested(), 3_GiB);
}

TEST_F(RulesOrder, OveruseIsCountedBeforeSoftLimitsAndAlerts) {
  start(
      "[[tenant]]\nname = \"nlp\"\nlimit = \"8GiB\"\nsoft = \"50%\"\n"
      "[alerts]\nrules = [\"tenant.used > 50%\"]\n");
  Program& train = run("train", 8_GiB);
  ASSERT_TRUE(train.take(1_GiB));
  driver_sees({{&train, 6_GiB}});
  (void)tick();
  EXPECT_EQ(count(tick(), "alert"), 0U);
  const Events events = tick();
  EXPECT_EQ(count(events, "violation"), 1U);
  EXPECT_EQ(count(events, "alert"), 2U);
}

TEST_F(RulesOrder, AnAlertOnATenantIsOfTheTenantsLimit) {
  start(
      "[[tenant]]\nname = \"nlp\"\nlimit = \"8GiB\"\n"
      "[alerts]\nrules = [\"tenant.used > 50%\"]\n");
  Program& train = run("train", 2_GiB);
  ASSERT_TRUE(train.take(1536_MiB));
  driver_sees({{&train, 1536_MiB}});
  for (int ticks = 0; ticks < 3; ++ticks) EXPECT_EQ(count(tick(), "alert"), 0U) << "19% of the tenant's limit";
}

}  // namespace
}  // namespace ration::node
