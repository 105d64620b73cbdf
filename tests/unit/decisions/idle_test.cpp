#include "node/decisions/idle.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>
#include <set>

namespace ration::node {
namespace {

using namespace ration::literals;

constexpr std::uint64_t kSeconds = 1'000'000'000, kMinutes = 60 * kSeconds;

using Names = std::vector<std::string>;

TEST(IdleWatch, AnswersOnceWhenNothingHappenedForLongEnough) {
  IdleWatch watch;
  const IdlePolicy policy{30 * kMinutes, 1, IdleAction::kTrim};
  const WorkloadFacts facts{"jup", 5_GiB, 10 * kMinutes, 0};
  EXPECT_FALSE(watch.look(facts, policy, 39 * kMinutes));
  const auto decision = watch.look(facts, policy, 57 * kMinutes);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->action, IdleAction::kTrim);
  EXPECT_EQ(decision->reason, "no memory taken or given back and no computing for 47m 00s");
  EXPECT_FALSE(watch.look(facts, policy, 58 * kMinutes)) << "answered already";
  EXPECT_EQ(watch.idle_ns("jup", 58 * kMinutes), 48 * kMinutes);
  EXPECT_FALSE(watch.idle_ns("nobody", 0));
  EXPECT_FALSE(watch.look({"jup", 5_GiB, 60 * kMinutes, 0}, policy, 60 * kMinutes));
  EXPECT_TRUE(watch.look({"jup", 5_GiB, 60 * kMinutes, 0}, policy, 90 * kMinutes)) << "another idle time";
}

TEST(IdleWatch, WhoComputesIsNotIdleHoweverStillItsMemory) {
  IdleWatch watch;
  const IdlePolicy policy{30 * kMinutes, 1, IdleAction::kSuspend};
  for (std::uint64_t minute = 0; minute < 300; ++minute)
    EXPECT_FALSE(watch.look({"train", 5_GiB, 0, minute % 20 == 0 ? 97 : 1}, policy, minute * kMinutes));
}

TEST(IdleWatch, NobodyIsSuspendedWhoMayBeComputing) {
  IdleWatch watch;
  const IdlePolicy policy{30 * kMinutes, 1, IdleAction::kSuspend};
  const auto unknown = watch.look({"a", 5_GiB, 0, std::nullopt}, policy, 31 * kMinutes);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->action, IdleAction::kReport);
  EXPECT_NE(unknown->reason.find("not known, so it is not suspended"), std::string::npos);
  EXPECT_EQ(watch.look({"b", 5_GiB, 0, 0}, policy, 31 * kMinutes)->action, IdleAction::kSuspend);
  EXPECT_EQ(watch.look({"c", 0_GiB, 0, 0}, policy, 31 * kMinutes)->action, IdleAction::kReport);
}

/// Four of 4 GiB on 16 GiB, idle since their number in minutes.
Residency full() {
  Residency turns(16_GiB);
  for (int i = 0; i < 4; ++i) {
    const std::string id = "r" + std::to_string(i);
    EXPECT_TRUE(turns.add(id, 4_GiB));
    turns.resumed(id, 0);
    turns.rest(id, static_cast<std::uint64_t>(4 - i) * kMinutes);
  }
  EXPECT_TRUE(turns.add("new", 4_GiB));
  return turns;
}

TEST(Residency, TheLongestIdleMakesRoom) {
  Residency turns = full();
  EXPECT_FALSE(turns.ask("new", 10 * kMinutes));
  EXPECT_EQ(turns.position("new"), 1U);
  auto actions = turns.step(10 * kMinutes);
  EXPECT_EQ(actions.suspend, Names{"r3"});
  EXPECT_EQ(actions.resume, Names{}) << "not before it has left";
  actions = turns.step(10 * kMinutes);
  EXPECT_EQ(actions.suspend, Names{}) << "one is enough";
  turns.suspended("r3");
  EXPECT_EQ(turns.step(10 * kMinutes).resume, Names{"new"});
  EXPECT_EQ(turns.taken(), 16_GiB);
}

TEST(Residency, WhoIsActiveOrJustCameStays) {
  Residency turns = full();
  for (const char* id : {"r1", "r2", "r3"}) EXPECT_TRUE(turns.ask(id, 5 * kMinutes));
  turns.remove("r0");
  EXPECT_TRUE(turns.add("fresh", 4_GiB));
  turns.resumed("fresh", 10 * kMinutes);
  turns.rest("fresh", 10 * kMinutes);
  turns.ask("new", 10 * kMinutes);
  EXPECT_EQ(turns.step(10 * kMinutes).suspend, Names{});
  EXPECT_EQ(turns.next_change(10 * kMinutes), 10 * kMinutes + kMinimumResidence);
  EXPECT_EQ(turns.step(10 * kMinutes + kMinimumResidence).suspend, Names{"fresh"});
}

TEST(Residency, NobodyLeavesForSomebodyWhoseRoomCannotBeMade) {
  Residency turns = full();
  EXPECT_TRUE(turns.ask("r0", 10 * kMinutes));
  EXPECT_TRUE(turns.add("large", 16_GiB));
  EXPECT_EQ(turns.add("larger", 17_GiB).error().id, "E1104");
  turns.ask("large", 10 * kMinutes);
  turns.ask("new", 10 * kMinutes);
  const auto actions = turns.step(10 * kMinutes);
  EXPECT_EQ(actions.suspend, Names{});
  EXPECT_EQ(turns.position("new"), 2U) << "and nobody passes it";
  turns.rest("r0", 11 * kMinutes);
  EXPECT_EQ(turns.step(11 * kMinutes).suspend.size(), 4U);
}

TEST(Residency, NoMoreLeaveThanAreNeeded) {
  Residency turns(16_GiB);
  const std::pair<const char*, Bytes> there[] = {{"small", 2_GiB}, {"large", 12_GiB}, {"other", 2_GiB}};
  std::uint64_t now = 0;
  for (const auto& [id, size] : there) {
    EXPECT_TRUE(turns.add(id, size));
    turns.resumed(id, 0);
    turns.rest(id, now += kMinutes);
  }
  EXPECT_TRUE(turns.add("new", 12_GiB));
  turns.ask("new", 10 * kMinutes);
  EXPECT_EQ(turns.step(10 * kMinutes).suspend, Names{"large"}) << "the small one is idle for longer, and too small";
}

/// People at notebooks: they think, then a cell runs, so many times. Moving in and out takes its time.
class Notebooks {
 public:
  Notebooks(int people, int cells, int at_most_active, unsigned seed)
      : random_(seed), at_most_active_(at_most_active), cells_(static_cast<std::size_t>(people), cells) {
    for (std::size_t who = 0; who < cells_.size(); ++who) {
      EXPECT_TRUE(turns_.add(name(who), 4_GiB));
      later(think(), [this, who] { begin(who); });
    }
  }

  void run() {
    while (!events_.empty() && !testing::Test::HasFatalFailure()) {
      now_ = events_.top().time;
      const auto what = actions_[events_.top().action];
      events_.pop();
      what();
      step();
    }
    for (const int left : cells_) EXPECT_EQ(left, 0) << "somebody never finished";
  }

  std::uint64_t longest_wait = 0;
  int suspensions = 0;

 private:
  struct Event {
    std::uint64_t time;
    std::size_t action;
    bool operator>(const Event& other) const { return std::tie(time, action) > std::tie(other.time, other.action); }
  };

  static std::string name(std::size_t who) { return std::to_string(who); }
  std::uint64_t think() { return (5 + random_() % 600) * kSeconds; }

  void later(std::uint64_t after, std::function<void()> what) {
    events_.push({now_ + after, actions_.size()});
    actions_.push_back(std::move(what));
  }

  void begin(std::size_t who) {
    if (active_ >= at_most_active_) return later(5 * kSeconds, [this, who] { begin(who); });
    ++active_;
    asked_[who] = now_;
    if (turns_.ask(name(who), now_))
      compute(who);
    else
      order_.push_back(who);
  }

  void compute(std::size_t who) {
    ASSERT_TRUE(here_.count(who) != 0);
    busy_.insert(who);
    longest_wait = std::max(longest_wait, now_ - asked_[who]);
    later((2 + random_() % 120) * kSeconds, [this, who] {
      busy_.erase(who);
      --active_;
      turns_.rest(name(who), now_);
      if (--cells_[who] > 0) later(think(), [this, who] { begin(who); });
    });
  }

  void step() {
    const ResidencyActions actions = turns_.step(now_);
    for (const std::string& id : actions.suspend) {
      const std::size_t who = std::stoul(id);
      ++suspensions;
      ASSERT_EQ(busy_.count(who), 0U) << "an active one was suspended";
      ASSERT_GE(now_ - came_[who], kMinimumResidence) << "thrashing";
      later(2 * kSeconds, [this, who] {
        here_.erase(who);
        turns_.suspended(name(who));
      });
    }
    for (const std::string& id : actions.resume) {
      const std::size_t who = std::stoul(id);
      ASSERT_EQ(order_.front(), who) << "somebody was passed";
      order_.erase(order_.begin());
      here_.insert(who);
      ASSERT_LE(here_.size(), 4U) << "over capacity";
      later(3 * kSeconds, [this, who] {
        turns_.resumed(name(who), now_);
        came_[who] = now_;
        compute(who);
      });
    }
    if (const auto next = turns_.next_change(now_); next) later(*next - now_, [] {});
  }

  std::mt19937_64 random_;
  Residency turns_{16_GiB};
  int at_most_active_, active_ = 0;
  std::vector<int> cells_;
  std::uint64_t now_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::function<void()>> actions_;
  std::map<std::size_t, std::uint64_t> asked_, came_;
  std::set<std::size_t> here_, busy_;
  std::vector<std::size_t> order_;
};

TEST(ResidencyRandom, TwelveNotebooksOfFourGibOnSixteenGibThreeActiveAtATime) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Notebooks notebooks(12, 30, 3, seed);
    notebooks.run();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    EXPECT_GT(notebooks.suspensions, 50);
    EXPECT_LE(notebooks.longest_wait, kMinimumResidence + 10 * kSeconds) << "a fourth place is always idle";
  }
}

TEST(ResidencyRandom, WhereMoreAreActiveThanFitTheyWaitTheirTurnAndAllFinish) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Notebooks notebooks(30, 10, 30, seed);
    notebooks.run();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    EXPECT_LT(notebooks.longest_wait, 30 * 3 * kMinutes);
  }
}

}  // namespace
}  // namespace ration::node
