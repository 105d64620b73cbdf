// Who is away and who asks: with jobs that end when the test says so, and a real program that stirs when it is told to.
#include "node/residency/suspension.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "invented_node.hpp"
#include "node/queue/queue.hpp"

namespace ration::node {
namespace {

using State = Suspension::State;
using What = Suspension::Change::What;

class SuspensionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::pipe(orders_), 0);
    ASSERT_EQ(::pipe(answers_), 0);
    program_ = ::fork();
    if (program_ == 0) {  // rests until it is told something, and answers
      char order = 0;
      while (::read(orders_[0], &order, 1) == 1) {
        const auto until = std::clock() + kWork;
        while (order == 'w' && std::clock() < until) {
        }
        if (::write(answers_[1], &order, 1) != 1) break;
      }
      ::_exit(0);
    }
    processes_ = {*identity_of(program_)};
  }
  void TearDown() override {
    ::kill(program_, SIGKILL);
    ::waitpid(program_, nullptr, 0);
    for (const int end : {orders_[0], orders_[1], answers_[0], answers_[1]}) ::close(end);
  }
  /// Returns when the program has done something and rests again.
  void stir() { tell('x'); }
  void work() { tell('w'); }
  void tell(char order) {
    ASSERT_EQ(::write(orders_[1], &order, 1), 1);
    ASSERT_EQ(::read(answers_[0], &order, 1), 1);
    for (std::string state; state != "S";) {  // its way back to rest is part of the stir
      std::ifstream file("/proc/" + std::to_string(program_) + "/stat");
      std::string pid, name;
      file >> pid >> name >> state;
    }
  }
  /// What happened at the next tick.
  std::vector<What> tick() {
    std::vector<What> what;
    for (const auto& change : suspension_.update(now_ += kSecond)) {
      what.push_back(change.what);
      confirmed_ = change.confirmed;
    }
    return what;
  }
  /// What the first tick brings that brings anything.
  std::vector<What> first_within(int seconds) {
    std::vector<What> what;
    for (int second = 0; second < seconds && what.empty(); ++second) what = tick();
    return what;
  }
  /// Rests long enough for the kernel's counters to be still.
  void suspend(bool held = false) {
    stir();
    suspension_.observe_rest("a", processes_, now_ += kSecond);
    now_ += kSecond;
    ASSERT_TRUE(suspension_.suspend("a", processes_, held, now_));
  }

  static constexpr std::clock_t kWork = CLOCKS_PER_SEC / 100;

  int orders_[2]{}, answers_[2]{};
  pid_t program_ = 0;
  std::vector<ProcessIdentity> processes_;
  FakeJobs* jobs_ = new FakeJobs;
  Suspension suspension_{std::unique_ptr<CheckpointJobs>(jobs_)};
  std::uint64_t now_ = kSecond;
  bool confirmed_ = false;  ///< of the last that asked
};

TEST_F(SuspensionTest, WhoRestsStaysAwayAndWhoStirsAsks) {
  suspend();
  EXPECT_EQ(suspension_.state_of("a"), State::kSuspending);
  EXPECT_FALSE(suspension_.is_suspended("a")) << "its bytes are still there";
  EXPECT_EQ(tick(), std::vector{What::kSuspended});
  EXPECT_EQ(tick(), std::vector<What>{});
  stir();
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
  EXPECT_EQ(tick(), std::vector<What>{}) << "it asks once";
  EXPECT_TRUE(suspension_.resume("a"));
  EXPECT_EQ(tick(), std::vector{What::kResumed});
  EXPECT_EQ(suspension_.state_of("a"), State::kOnDevice);
}

TEST_F(SuspensionTest, WhoStirsWhileItLeavesIsNotMissed) {
  jobs_->finish = false;
  suspend();
  EXPECT_EQ(tick(), std::vector<What>{});
  stir();
  jobs_->finish = true;
  EXPECT_EQ(tick(), (std::vector{What::kSuspended, What::kRequestsResume}));
}

TEST_F(SuspensionTest, WhoTickedAtRestAsksWhenItFallsSilent) {
  suspension_.observe_rest("a", processes_, now_);
  for (int tick = 0; tick < 8; ++tick) stir();
  ASSERT_TRUE(suspension_.suspend("a", processes_, false, now_ += kSecond));
  stir();
  EXPECT_EQ(tick(), std::vector{What::kSuspended});
  for (int second = 0; second < 5; ++second) {
    stir();
    EXPECT_EQ(tick(), std::vector<What>{}) << "it ticks as it did";
  }
  EXPECT_EQ(first_within(8), std::vector{What::kRequestsResume}) << "a call of the driver keeps it";
}

TEST_F(SuspensionTest, WhoStirredIsNotSureToAskBeforeItWorks) {
  suspend();
  EXPECT_EQ(tick(), std::vector{What::kSuspended});
  stir();
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
  EXPECT_FALSE(confirmed_) << "it may be a timer";
  EXPECT_TRUE(suspension_.may_request_resume());
  stir();
  EXPECT_EQ(tick(), std::vector<What>{});
  work();
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
  EXPECT_TRUE(confirmed_);
  work();
  EXPECT_EQ(tick(), std::vector<What>{}) << "once";
}

TEST_F(SuspensionTest, ATimerSlowerThanTheRestThatWasSeenBringsItBackOnceForNothing) {
  suspend();
  (void)tick();
  stir();
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
  ASSERT_TRUE(suspension_.resume("a"));
  EXPECT_EQ(tick(), std::vector{What::kResumed});
  suspension_.observe_rest("a", processes_, now_);
  stir();
  ASSERT_TRUE(suspension_.suspend("a", processes_, false, now_ += kSecond));
  EXPECT_EQ(tick(), std::vector{What::kSuspended});
  for (int second = 0; second < 3; ++second) {
    stir();
    EXPECT_EQ(tick(), std::vector<What>{}) << "it is known to stir";
  }
  EXPECT_EQ(first_within(10), std::vector{What::kRequestsResume}) << "a call of the driver keeps it";
  EXPECT_TRUE(confirmed_);
}

TEST_F(SuspensionTest, WhoWorkedIsNotTakenForATimer) {
  suspend();
  (void)tick();
  work();
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
  ASSERT_TRUE(suspension_.resume("a"));
  (void)tick();
  suspension_.observe_rest("a", processes_, now_);
  stir();
  ASSERT_TRUE(suspension_.suspend("a", processes_, false, now_ += kSecond));
  (void)tick();
  stir();
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
}

TEST_F(SuspensionTest, WhoseRestWasNotSeenDoesNotStayAwayForEver) {
  ASSERT_TRUE(suspension_.suspend("a", processes_, false, now_));
  EXPECT_EQ(tick(), std::vector{What::kSuspended});
  std::vector<What> what;
  for (int second = 0; second < 12 && what.empty(); ++second) what = tick();
  EXPECT_EQ(what, std::vector{What::kRequestsResume});
}

TEST_F(SuspensionTest, WhoIsHeldComesBackWhenAPersonSaysSo) {
  suspend(true);
  EXPECT_EQ(tick(), std::vector{What::kSuspended});
  stir();
  EXPECT_EQ(tick(), std::vector<What>{});
  EXPECT_FALSE(suspension_.resume("a")) << "it has not asked";
  EXPECT_TRUE(suspension_.request_resume("a", "somebody wants it"));
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
}

TEST_F(SuspensionTest, FailuresLeaveItWhereItIs) {
  jobs_->problem = Error{"E1543", "busy", "wait", 1};
  suspend();
  EXPECT_EQ(tick(), std::vector{What::kNotSuspended});
  EXPECT_EQ(suspension_.state_of("a"), State::kOnDevice);
  jobs_->problem.reset();
  suspend();
  (void)tick();
  stir();
  (void)tick();
  jobs_->problem = Error{"E1544", "no room", "wait", 4};
  ASSERT_TRUE(suspension_.resume("a"));
  EXPECT_EQ(tick(), (std::vector{What::kNotResumed, What::kRequestsResume})) << "it asks again";
  EXPECT_TRUE(suspension_.is_suspended("a"));
}

TEST_F(SuspensionTest, WhomTheDriverHasGivenUpDoesNotAskForEver) {
  suspend();
  (void)tick();
  stir();
  (void)tick();
  jobs_->problem = Error{"E1545", "error 304", "kill it", 1};
  ASSERT_TRUE(suspension_.resume("a"));
  EXPECT_EQ(tick(), std::vector{What::kNotResumed});
  stir();
  EXPECT_EQ(tick(), std::vector<What>{});
  EXPECT_TRUE(suspension_.request_resume("a", "a person tries again"));
}

TEST_F(SuspensionTest, WhoWasAwayBeforeARestartAsksUnlessHeld) {
  suspension_.restore("a", processes_, false);
  suspension_.restore("b", processes_, true);
  EXPECT_EQ(tick(), std::vector{What::kRequestsResume});
  EXPECT_EQ(suspension_.state_of("a"), State::kRequesting);
  EXPECT_EQ(suspension_.state_of("b"), State::kSuspended);
  suspension_.forget("a");
  EXPECT_FALSE(suspension_.resume("a"));
}

TEST(CheckpointProcesses, WhoComesBackGoesBeforeThoseThatHaveNotBegunToLeave) {
  char folder[] = "/tmp/ration-jobs-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string program = folder + std::string("/program");
  std::ofstream(program) << "#!/bin/sh\necho '{\"driver_threads\":[]}'\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  CheckpointProcesses jobs(program, "", "");
  using machine::CheckpointAction;
  jobs.start("first to leave", CheckpointAction::kSuspend, {});
  jobs.start("second to leave", CheckpointAction::kSuspend, {});
  jobs.start("first to return", CheckpointAction::kResume, {});
  jobs.start("second to return", CheckpointAction::kResume, {});
  std::vector<std::string> finished;
  while (finished.size() < 4)
    for (const auto& job : jobs.take_finished()) {
      EXPECT_TRUE(job.outcome) << job.outcome.error().what;
      finished.push_back(job.id);
    }
  EXPECT_EQ(finished,
            (std::vector<std::string>{"first to leave", "first to return", "second to return", "second to leave"}));
  std::filesystem::remove_all(folder);
}

TEST(CheckpointWords, ProcessesAndOutcomesComeBackAsTheyWere) {
  const ProcessIdentity own = current_process();
  const auto read = process_from_word(to_word(own));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->same_as(own));
  for (const char* wrong : {"", "1", "1:2", "1:2:", "a:1:2", "1:2:3:4", "1:2:3 "})
    EXPECT_FALSE(process_from_word(wrong)) << wrong;
  EXPECT_EQ(outcome_from_line(to_line(machine::CheckpointOutcome{{4, 5}}))->driver_threads, (std::vector<int>{4, 5}));
  EXPECT_EQ(outcome_from_line(to_line(tl::unexpected(Error{"E1544", "x", "y", 4}))).error().exit_code, 4);
  for (const char* wrong : {"", "{}", "[]", "null", R"({"driver_threads":"x"})", R"({"error":{}})"})
    EXPECT_EQ(outcome_from_line(wrong).error().id, "E1545") << wrong;
}

}  // namespace
}  // namespace ration::node
