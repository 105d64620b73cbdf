#include "guard/hooks/gate.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace ration::guard {
namespace {

TEST(Gate, NobodyIsInsideWithTheOneWhoAskedToBeAlone) {
  constexpr int kRounds = 20'000;
  const auto gate = std::make_unique<Gate>();
  std::atomic<bool> here{false}, met{false}, done{false};  // plain stores: an atomic addition would itself be a barrier
  std::atomic<long> passed{0};
  std::thread passing([&] {
    for (long round = 1; !done.load(std::memory_order_relaxed); ++round) {
      {
        const Gate::Pass pass(*gate);
        here.store(true, std::memory_order_relaxed);
        for (long stay = 0; stay < round % 64; ++stay) (void)done.load(std::memory_order_relaxed);
        here.store(false, std::memory_order_relaxed);
      }
      passed.store(round, std::memory_order_relaxed);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    const long before = passed.load();
    while (passed.load(std::memory_order_relaxed) == before) {  // or the gate would hardly ever be open
    }
    const Gate::Alone alone(*gate);
    for (int look = 0; look < 20; ++look) {
      if (here.load(std::memory_order_relaxed)) met = true;
    }
  }
  done = true;
  passing.join();
  EXPECT_FALSE(met);
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

// A thread has its lane to itself in every gate, whichever it passed first.
TEST(Gate, TwoThreadsThatPassedDifferentGatesFirst) {
  const auto first = std::make_unique<Gate>(), second = std::make_unique<Gate>();
  std::atomic<bool> inside{false}, passed{false}, asked{false}, left{false};
  std::thread stays([&] {
    { const Gate::Pass pass(*first); }
    const Gate::Pass pass(*second);
    inside = true;
    while (!asked) std::this_thread::yield();
    for (int turn = 0; turn < 1'000; ++turn) std::this_thread::yield();
    left = true;
  });
  std::thread passes([&] {
    while (!inside) std::this_thread::yield();
    { const Gate::Pass pass(*second); }
    passed = true;
  });
  while (!passed) std::this_thread::yield();
  asked = true;
  {
    const Gate::Alone alone(*second);
    EXPECT_TRUE(left);
  }
  stays.join();
  passes.join();
}

}  // namespace
}  // namespace ration::guard
