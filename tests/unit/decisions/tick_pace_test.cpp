#include "node/tick_pace.hpp"

#include <gtest/gtest.h>

namespace ration::node {
namespace {

TEST(TickPace, TicksOnDemandTakeATenthOfTheTimeHoweverManyAsk) {
  TickPace pace;
  constexpr double kTook = 0.015;
  pace.note_tick(kTook, false);
  double spent = 0;
  for (double now = 1'000; now < 1'100; now += 0.001) {
    if (!pace.affords_tick(now, 0)) continue;
    pace.pay();
    spent += kTook;
  }
  EXPECT_LE(spent, 100 * TickPace::kMaxShare + TickPace::kMaxBudget);
  EXPECT_GE(spent, 100 * TickPace::kMaxShare * 0.9);
}

TEST(TickPace, ALongTickIsAffordedOnlyOnceTheSnapshotIsOld) {
  TickPace pace;
  pace.note_tick(0.5, false);
  EXPECT_FALSE(pace.affords_tick(1'000, 4.9));
  EXPECT_TRUE(pace.affords_tick(1'000, 5.1));
}

TEST(TickPace, ItIsBusyFromTheFirstTickOnWhileAnythingChangesOrIsAboutTo) {
  TickPace pace;
  EXPECT_TRUE(pace.busy());
  pace.note_tick(0.001, false);
  EXPECT_FALSE(pace.busy());
  pace.hurry();
  EXPECT_TRUE(pace.busy());
  pace.note_tick(0.001, true);
  EXPECT_TRUE(pace.busy());
}

}  // namespace
}  // namespace ration::node
