#include "shim/hooks/gate.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace ration::shim {
namespace {

TEST(Gate, NobodyIsInsideWithTheOneWhoAskedToBeAlone) {
  constexpr int kThreads = 2, kRounds = 100'000;
  const auto gate = std::make_unique<Gate>();
  std::atomic<int> here[kThreads * 16] = {};  // plain stores: an atomic addition would be the barrier that is tested
  std::atomic<bool> anybody_met{false}, done{false};
  long alone_count = 0;  // not atomic: only the one who is alone touches it
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, index] {
      for (int round = 0; index == 0 ? round < kRounds : !done.load(std::memory_order_relaxed); ++round) {
        if (index == 0) {
          const Gate::Alone alone(*gate);
          for (int look = 0; look < 3; ++look) {
            for (const auto& thread : here) {
              if (thread.load(std::memory_order_relaxed) != 0) anybody_met = true;
            }
          }
          ++alone_count;
        } else {
          const Gate::Pass pass(*gate);
          here[index * 16].store(1, std::memory_order_relaxed);
          here[index * 16].store(0, std::memory_order_relaxed);
        }
      }
      if (index == 0) done = true;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(anybody_met);
  EXPECT_EQ(alone_count, kRounds);
}

// More threads than there are lanes of their own: the last ones share.
TEST(Gate, HoldsForMoreThreadsThanItHasLanes) {
  const auto gate = std::make_unique<Gate>();
  std::atomic<int> passing{0};
  std::atomic<bool> anybody_met{false};
  std::vector<std::thread> threads;
  for (int index = 0; index < 90; ++index) {
    threads.emplace_back([&] {
      for (int round = 0; round < 40; ++round) {
        {
          const Gate::Pass pass(*gate);
          passing.fetch_add(1, std::memory_order_relaxed);
          passing.fetch_sub(1, std::memory_order_relaxed);
        }
        if (round % 20 != 0) continue;
        const Gate::Alone alone(*gate);
        if (passing.load(std::memory_order_relaxed) != 0) anybody_met = true;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(anybody_met);
}

}  // namespace
}  // namespace ration::shim
