// Each rule of the daemon, in a node that this test invents: what it tells, when, and what it changes.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>

#include "invented_node.hpp"
#include "machine/cgroup_limits.hpp"
#include "node/residency/residency.hpp"

namespace ration::node {
namespace {

using Texts = std::vector<std::string>;

class RulesTest : public InventedNode {
 protected:
  /// A program that holds 4 GiB of 8, and a device that computes nothing.
  Program& run_idle() {
    Program& train = run("train", 8_GiB);
    EXPECT_TRUE(train.take(4_GiB));
    driver_sees({{&train, 4_GiB}});
    device_.utilisation = 0;
    return train;
  }
};

TEST_F(RulesTest, LifecycleTellsTheStartOnceAndTheEndWithItsStatusAndItsPeak) {
  start();
  Program& train = run("train", 4_GiB);
  EXPECT_EQ(told("started", 3).size(), 1U);
  ASSERT_TRUE(train.take(3_GiB));
  train.end(7);
  EXPECT_EQ(told("ended", 3), Texts{"nlp/train ended with 7; its peak was 3.00 GiB"});
  EXPECT_TRUE(engine_->snapshot().accounts.empty());
}

TEST_F(RulesTest, DenialsAreToldOnceEachWithWhatWasInTheWay) {
  start();
  Program& train = run("train", 4_GiB);
  (void)tick();
  ASSERT_TRUE(train.take(3_GiB));
  ASSERT_FALSE(train.take(2_GiB));
  train.deny(2_GiB);
  EXPECT_EQ(told("denied", 3), Texts{"nlp/train was denied 2.00 GiB: it held 3.00 GiB of its limit 4.00 GiB"});
  train.deny(5_GiB);
  train.give_back(1_GiB);
  train.deny(3_GiB);
  EXPECT_EQ(told("denied", 3), (Texts{"nlp/train was denied 5.00 GiB: it held 3.00 GiB of its limit 4.00 GiB",
                                      "nlp/train was denied 3.00 GiB: it held 2.00 GiB of its limit 4.00 GiB"}));
}

TEST_F(RulesTest, AFixOfADenialCountsWhatTheWorkloadHoldsByThen) {
  start();
  Program& train = run("train", 9_GiB, 9_GiB);
  Program& serve = run("serve", 6_GiB);
  ASSERT_TRUE(train.take(8_GiB));
  driver_sees({{&train, 8_GiB}});
  (void)tick();
  (void)tick();  // its guarantee counts from here on
  ASSERT_TRUE(serve.take(6_GiB));
  driver_sees({{&train, 8_GiB}, {&serve, 6_GiB}});
  serve.deny(256_MiB);
  const Events events = tick();
  const auto denied = std::find_if(events.begin(), events.end(), [](const Event& each) { return each.denied; });
  ASSERT_NE(denied, events.end());
  EXPECT_EQ(denied->fix, "ration set serve --limit 7GiB");
}

TEST_F(RulesTest, WaitsThatEndWellAreToldWithHowLong) {
  start();
  Program& train = run("train", 4_GiB, 0_GiB, book::OnDeny::kWait);
  ASSERT_TRUE(train.take(3_GiB));
  (void)tick();
  train.begin_waiting(2_GiB);
  EXPECT_EQ(told("waited", 4), Texts{});
  train.end_waiting(true);
  EXPECT_EQ(told("waited", 3),
            Texts{"nlp/train waited about 4.0s for 2.00 GiB and got it: it held 3.00 GiB of its limit 4.00 GiB"});
  train.begin_waiting(2_GiB);
  (void)tick();
  train.end_waiting(false);
  EXPECT_EQ(told("waited", 3), Texts{}) << "it gave up, or was denied";
}

TEST_F(RulesTest, TamperPutsALimitBackThatTheProgramChangedAndTellsIt) {
  start();
  Program& train = run("train", 4_GiB);
  (void)tick();
  train.book.account(0).set_limit(12_GiB);
  EXPECT_EQ(told("violation"), Texts{"nlp/train changed its own limit to 12.0 GiB; it was put back to 4.00 GiB"});
  EXPECT_EQ(train.book.account(0).limits().binding(), 4_GiB);
  EXPECT_EQ(told("violation", 5), Texts{});
}

TEST_F(RulesTest, ABookThatIsDamagedCountsWithAllThatItsWorkloadMayHold) {
  start("[[tenant]]\nname = \"nlp\"\nlimit = \"6GiB\"\n");
  Program& train = run("train", 4_GiB);
  ASSERT_TRUE(train.take(1_GiB));
  (void)tick();
  ASSERT_EQ(::truncate(train.path.c_str(), 0), 0);
  EXPECT_EQ(told("violation"),
            Texts{"the book of nlp/train was altered: the book is shorter than its format says; until "
                  "the workload ends, its whole limit counts as held"});
  Program& other = run("other", 6_GiB);
  EXPECT_EQ(told("violation", 3), Texts{}) << "told once";
  EXPECT_FALSE(other.take(3_GiB)) << "its tenant has 2 GiB left";
  EXPECT_TRUE(other.take(1_GiB));
  EXPECT_EQ(engine_->snapshot().account_of(train.path, 0)->altered, "the book is shorter than its format says");
}

TEST_F(RulesTest, BalancingKeepsAGuaranteeFreeAndNeverGivesMoreThanTheDeviceHas) {
  start();
  Program& burst = run("burst", 16_GiB);
  Program& guaranteed = run("guaranteed", 16_GiB, 6_GiB);
  (void)tick();
  (void)tick();
  Bytes held;
  for (int round = 0; round < 60; ++round) {
    if (burst.take(512_MiB))
      held += 512_MiB;
    else
      burst.deny(512_MiB);
    driver_sees({{&burst, held}});
    (void)tick();
    EXPECT_LE(burst.book.account(0).used() + 6_GiB, 16_GiB) << "round " << round;
    EXPECT_LE(std::max(burst.book.account(0).used(), limit_of(burst).in_force) +
                  std::max(6_GiB, guaranteed.book.account(0).used()),
              16_GiB)
        << "round " << round;
  }
  EXPECT_GE(burst.book.account(0).used(), 9_GiB) << "what is not guaranteed is there to be used";
  EXPECT_TRUE(guaranteed.take(6_GiB)) << "at once";
}

TEST_F(RulesTest, AGuaranteeCountsFromTheTickThatFindsItIfItCanBeKept) {
  start();
  Program& first = run("first", 16_GiB, 12_GiB);
  Program& second = run("second", 16_GiB, 12_GiB);
  (void)tick();
  EXPECT_EQ(engine_->snapshot().account_of(first.path, 0)->guarantee, 12_GiB);
  EXPECT_EQ(engine_->snapshot().account_of(second.path, 0)->guarantee, 0_GiB);
  EXPECT_EQ(engine_->snapshot().devices.front().promised, 12_GiB);
  EXPECT_EQ(engine_->snapshot().devices.front().available, 4_GiB);
  EXPECT_EQ(limit_of(second).guarantee, 0_GiB);
}

TEST(Demand, IsNothingForAWorkloadOrAnAccountThatWasNotNoted) {
  Demand demand;
  EXPECT_EQ(demand.of("unknown", 0), 0_GiB);
  Workload workload;
  workload.path = "known";
  workload.book.accounts.resize(2);
  workload.book.wanted = {3_GiB};
  book::Denial denial;
  denial.account = 1;
  denial.requested = 5_GiB;
  demand.note(workload, {denial});
  EXPECT_EQ(demand.of("known", 0), 3_GiB);
  EXPECT_EQ(demand.of("known", 1), 5_GiB);
  EXPECT_EQ(demand.of("known", 2), 0_GiB);
  demand.note(workload, {});
  EXPECT_EQ(demand.of("known", 1), 0_GiB) << "a denial is demand for one tick";
}

TEST_F(RulesTest, DriverLimitsHoldAWorkloadsCgroupToItsLimitAndGoWithIt) {
  const std::string group = folder_ + "/group";
  std::filesystem::create_directory(group);
  std::ofstream(group + "/cgroup.procs") << ::getpid() << "\n";
  // As driver_limits_test.cpp has it: the process loads that driver once.
  ::setenv("RATION_SIM", "T4:1GiB,driver=615", 1);
  ::setenv("RATION_SIM_DIR", (folder_ + "/node").c_str(), 1);
  options_.driver_folder = SIMULATED_DRIVER;
  options_.cgroup_of = [&](std::int32_t) { return group; };
  start();
  Program& train = run("train", 512_MiB);
  (void)tick();
  const auto held = [&] { return machine::cgroup_limit(SIMULATED_DRIVER, 0, group).value_or(std::nullopt); };
  EXPECT_EQ(held(), 512_MiB);
  EXPECT_TRUE(engine_->snapshot().accounts.front().driver_enforced);
  train.end(0);
  (void)tick();
  EXPECT_EQ(held(), std::nullopt);
}

TEST_F(RulesTest, ShrinkingIsToldOnceForEachLimitAndItsEnd) {
  start();
  Program& train = run("train", 8_GiB);
  ASSERT_TRUE(train.take(6_GiB));
  driver_sees({{&train, 6_GiB}});
  (void)tick();
  engine_->subjects().limits.limits.find(train.path)->accounts[0].configured = 4_GiB;
  const Texts over = told("shrinking", 4);
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over.front().rfind("nlp/train holds 6.00 GiB, 2.00 GiB more than its limit 4.00 GiB", 0), 0U)
      << over.front();
  train.give_back(3_GiB);
  driver_sees({{&train, 3_GiB}});
  EXPECT_EQ(told("shrinking", 4), Texts{"nlp/train is under its limit again"});
}

TEST_F(RulesTest, UnrequestedMemoryIsEnteredOnceSeveralTicksAgree) {
  start();
  Program& train = run("train", 8_GiB);
  ASSERT_TRUE(train.take(2_GiB));
  Bytes peak;
  const auto entered = [&] {
    book::BookSnapshot book;
    EXPECT_EQ(book::Book::read(train.path.c_str(), book), book::BookStatus::kOk);
    peak = book.accounts.front().peak;
    return book.accounts.front().unrequested;
  };
  driver_sees({{&train, 2_GiB}});
  for (int round = 0; round < 10; ++round) (void)tick();
  EXPECT_EQ(entered(), 0_MiB);
  driver_sees({{&train, 2_GiB + 300_MiB}});
  (void)tick();
  EXPECT_EQ(entered(), 0_MiB) << "it may be a charge that was read too early";
  for (int round = 0; round < 10; ++round) (void)tick();
  EXPECT_EQ(entered(), 300_MiB);
  EXPECT_EQ(peak, 2_GiB + 300_MiB) << "the book's own peak, which the closing line and the event tell";
  ASSERT_TRUE(train.take(1_GiB));
  driver_sees({{&train, 3_GiB + 300_MiB}});
  for (int round = 0; round < 10; ++round) (void)tick();
  EXPECT_EQ(entered(), 300_MiB);
  EXPECT_EQ(peak, 3_GiB + 300_MiB);
  driver_sees({{&train, 3_GiB}});
  for (int round = 0; round < 10; ++round) (void)tick();
  EXPECT_EQ(entered(), 0_MiB);
  EXPECT_EQ(peak, 3_GiB + 300_MiB);
}

TEST_F(RulesTest, OveruseIsAViolationAtTheThirdTick) {
  start();
  Program& train = run("train", 8_GiB);
  ASSERT_TRUE(train.take(1_GiB));
  driver_sees({{&train, 1_GiB}});
  (void)tick();
  driver_sees({{&train, 4_GiB}});
  EXPECT_EQ(told("violation", 2), Texts{});
  EXPECT_EQ(engine_->snapshot().accounts.front().processes.front().state, ProcessState::kGoverned);
  EXPECT_EQ(
      told("violation", 1),
      Texts{fmt::format("pid {} of nlp/train uses 4.00 GiB according to the driver, but 1.00 GiB according to its book",
                        train.pid)});
  EXPECT_EQ(engine_->snapshot().accounts.front().processes.front().state, ProcessState::kViolator);
  EXPECT_EQ(told("violation", 10), Texts{}) << "told once";
}

TEST_F(RulesTest, ASoftLimitIsToldWhenItIsPassedAndAgainAfterItWasNot) {
  start("[[tenant]]\nname = \"nlp\"\nlimit = \"8GiB\"\nsoft = \"50%\"\n");
  Program& train = run("train", 8_GiB);
  ASSERT_TRUE(train.take(4_GiB));
  EXPECT_EQ(told("alert", 3), Texts{});
  ASSERT_TRUE(train.take(2_MiB));
  EXPECT_EQ(told("alert", 3), Texts{"tenant nlp holds 4.00 GiB on GPU 0: more than 50% of its limit 8.00 GiB"});
  train.give_back(1_GiB);
  EXPECT_EQ(told("alert", 3), Texts{});
  ASSERT_TRUE(train.take(2_GiB));
  EXPECT_EQ(told("alert", 3).size(), 1U);
}

TEST_F(RulesTest, UngovernedPolicyWarnsThenAsksThenEndsTheProcessItSaw) {
  start("[defaults]\nungoverned = \"terminate\"\ngrace = \"10s\"\n");
  (void)tick();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, SIG_IGN);
    (void)!::write(ready[1], "y", 1);
    for (;;) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  device_.processes = {{child, 2_GiB}};
  device_.free = 14_GiB;
  const Texts warned = told("alert", 9);
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_NE(warned.front().find("is under no limit on GPU 0: it will be ended in 10s"), std::string::npos)
      << warned.front();
  const Texts ended = told("alert", 20);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_NE(ended[0].find("SIGTERM was sent"), std::string::npos) << ended[0];
  EXPECT_NE(ended[1].find("SIGKILL was sent"), std::string::npos) << ended[1];
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(RulesTest, AProcessThatWasWarnedOfHasItsGraceFromTheChangeOfTheRuleOn) {
  const auto rule = [](const std::string& name) {
    return "[defaults]\nungoverned = \"" + name + "\"\ngrace = \"10s\"\n";
  };
  start(rule("warn"));
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  device_.processes = {{child, 2_GiB}};
  device_.free = 14_GiB;
  EXPECT_EQ(told("alert", 30).size(), 1U);
  engine_->configure(config::parse_configuration({{"test.toml", rule("terminate")}}).configuration);
  const Texts warned = told("alert", 9);
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_NE(warned.front().find("it will be ended in 10s"), std::string::npos) << warned.front();
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "it was ended within its grace period";
  EXPECT_EQ(told("alert", 3).size(), 1U);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST_F(RulesTest, ATrimTellsWhatCameBackWhenItsTimeIsOver) {
  start();
  Program& train = run("train", 8_GiB);
  ASSERT_TRUE(train.take(4_GiB));
  (void)tick();
  engine_->subjects().residency.begin_trim(engine_->moment(), engine_->registry().workloads().at(train.path), "root");
  EXPECT_EQ(told("trimmed"), Texts{});
  train.give_back(3_GiB);
  EXPECT_EQ(told("trimmed", 5), Texts{"nlp/train gave back 3.00 GiB of 4.00 GiB"});
  engine_->subjects().residency.begin_trim(engine_->moment(), engine_->registry().workloads().at(train.path), "root");
  EXPECT_EQ(told("trimmed", 5),
            Texts{"nlp/train gave back nothing of 1.00 GiB: all of it is in use or cached by its framework, or the "
                  "program called no function that frees memory or waits for the GPU"});
}

constexpr const char* kSuspendIdle =
    "[[policy]]\nmatch = { users = [\"*\"] }\nidle = { after = \"10s\", action = \"suspend\" }\n";

TEST_F(RulesTest, WhoIsIdleIsSuspendedAndComesBackWhenThereIsRoomForItAndAMargin) {
  start(kSuspendIdle);
  Program& train = run_idle();
  EXPECT_EQ(told("idle", 10), Texts{});
  EXPECT_EQ(told("idle", 3).size(), 1U);
  EXPECT_EQ(told("suspended", 0), Texts{});
  Residency& residency = engine_->subjects().residency;
  for (int ticks = 0; ticks < 5 && !residency.suspension().is_suspended(train.path); ++ticks) (void)tick();
  ASSERT_TRUE(residency.suspension().is_suspended(train.path));
  EXPECT_EQ(residency_changes_.suspended, Texts{train.path});
  ASSERT_TRUE(residency.suspension().request_resume(train.path, "it works again"));
  residency.approve_resume(engine_->moment(), train.path);
  const auto others_hold = [&](Bytes bytes) {
    device_.processes = {{1, bytes}};
    device_.free = device_.total - bytes;
  };
  others_hold(12_GiB - 128_MiB);
  EXPECT_EQ(told("resumed", 5), Texts{}) << "a restore without a margin is the last one that driver makes";
  others_hold(12_GiB - 256_MiB);
  EXPECT_EQ(told("resumed", 3), Texts{"nlp/train is back on its device"});
}

TEST_F(RulesTest, WhoIsIdleIsAskedToGiveBackAndSuspendedLater) {
  start(
      "[[policy]]\nmatch = { users = [\"*\"] }\n"
      "idle = { after = \"10s\", action = \"trim\", suspend_after = \"30s\" }\n");
  Program& train = run_idle();
  EXPECT_EQ(told("idle", 11).size(), 1U);
  train.give_back(1_GiB);
  driver_sees({{&train, 3_GiB}});
  EXPECT_EQ(told("trimmed", 5), Texts{"nlp/train gave back 1.00 GiB of 4.00 GiB"});
  EXPECT_EQ(told("idle", 9), Texts{}) << "what it gave back is no work, and the second step is not due";
  EXPECT_FALSE(engine_->subjects().residency.suspension().is_suspended(train.path));
  for (int ticks = 0; ticks < 10 && !engine_->subjects().residency.suspension().is_suspended(train.path); ++ticks)
    (void)tick();
  EXPECT_TRUE(engine_->subjects().residency.suspension().is_suspended(train.path));
}

TEST_F(RulesTest, WhoIsIdleIsSoByNoClockThatIsSetAheadOrBack) {
  start(kSuspendIdle);
  run_idle();
  constexpr std::uint64_t kHour = 3'600 * kSecond;
  for (const std::uint64_t jump : {5 * kHour, -(9 * kHour)}) {
    EXPECT_EQ(told("idle", 4), Texts{});
    jumped_ns_ = jump;
    EXPECT_EQ(count(tick(), "idle"), 0U);
    EXPECT_LE(engine_->snapshot().accounts.front().idle_ns, 10 * kTick);
    EXPECT_EQ(engine_->snapshot().time_ns, now_ns_ + jump) << "what is shown is what the clock says";
    EXPECT_LE(engine_->moment().first_tick_ns, now_ns_ + jump) << "a book of now is none of before the daemon";
  }
  const std::uint64_t before = now_ns_;
  Events events;
  while (count(events, "idle") == 0 && now_ns_ < before + 10 * kTick) events = tick();
  ASSERT_EQ(count(events, "idle"), 1U) << "nobody is kept from it either";
  for (const Event& event : events) EXPECT_EQ(event.time, history::to_ms(now_ns_ + jumped_ns_));
}

TEST_F(RulesTest, WhoCannotBeSuspendedIsToldSoAndStays) {
  start(kSuspendIdle);
  Program& train = run_idle();
  jobs_->problem = Error{"E1543", "the driver said no", "ration doctor", 1};
  EXPECT_EQ(told("suspend_failed", 16), Texts{"nlp/train was not suspended: the driver said no"});
  EXPECT_FALSE(engine_->subjects().residency.suspension().is_suspended(train.path));
}

TEST_F(RulesTest, AStandstillEndsWithTheSuspensionOfOne) {
  start();
  Program& first = run("first", 16_GiB, 0_GiB, book::OnDeny::kWait);
  Program& second = run("second", 16_GiB, 0_GiB, book::OnDeny::kWait);
  (void)tick();
  ASSERT_TRUE(first.take(8_GiB));
  (void)tick();
  ASSERT_TRUE(second.take(limit_of(second).in_force));
  driver_sees({{&first, first.book.account(0).used()}, {&second, second.book.account(0).used()}});
  (void)tick();
  first.begin_waiting(4_GiB);
  EXPECT_EQ(told("suspending", 10), Texts{}) << "the other goes on";
  second.begin_waiting(4_GiB);
  const Texts suspending = told("suspending", 10);
  ASSERT_EQ(suspending.size(), 1U);
  EXPECT_NE(suspending.front().find("2 workloads on GPU 0 hold memory and wait for more"), std::string::npos)
      << suspending.front();
  EXPECT_NE(engine_->subjects().residency.suspension().is_suspended(first.path),
            engine_->subjects().residency.suspension().is_suspended(second.path));
}

TEST_F(RulesTest, AlertsAreRaisedAndCleared) {
  start("[alerts]\nrules = [\"device.used > 90% for 5s\"]\n");
  device_.free = 1_GiB;
  EXPECT_EQ(told("alert", 4), Texts{});
  EXPECT_EQ(told("alert", 10), Texts{"GPU 0: raised (device.used > 90% for 5s): 15.0 GiB of 16.0 GiB"});
  device_.free = 8_GiB;
  EXPECT_EQ(told("alert", 10), Texts{"GPU 0: cleared (device.used > 90% for 5s)"});
}

TEST_F(RulesTest, SchedulesChangeATenantsLimitTwiceADay) {
  start(
      "[[tenant]]\nname = \"nlp\"\nlimit = \"8GiB\"\n[[schedule]]\nwhen = \"22:00-07:00\"\nset = { nlp = \"14GiB\" "
      "}\n");
  (void)tick();
  std::size_t changes = 0;
  for (int minute = 0; minute < 3 * 24 * 60; ++minute) {
    now_ns_ += 59 * kTick;
    changes += count(tick(), "resized");
  }
  EXPECT_EQ(changes, 6U) << "in three days";
}

}  // namespace
}  // namespace ration::node
