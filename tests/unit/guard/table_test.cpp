#include "guard/hooks/table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace ration::guard {
namespace {

// Keys as drivers give them: addresses side by side, which fall into the same places.
std::uint64_t key_of(std::uint64_t number) { return 0x7f0000000000 + number * 512; }

TEST(Table, AnswersAsAMapDoesUnderRandomOperations) {
  const auto table = std::make_unique<Table<std::uint64_t>>();
  std::map<std::uint64_t, std::uint64_t> expected;
  std::mt19937_64 random(7);
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t key = key_of(random() % 3000), value = random();
    std::uint64_t found = 0;
    switch (random() % 5) {
      case 0:
        EXPECT_TRUE(table->insert(key, value));
        expected[key] = value;
        break;
      case 1: {
        const auto before = expected.find(key);
        EXPECT_EQ(table->replace(key, value, found), before != expected.end());
        if (before != expected.end()) {
          EXPECT_EQ(found, before->second);
        }
        expected[key] = value;
        break;
      }
      case 2:
        EXPECT_EQ(table->take(key, found), expected.count(key) == 1);
        if (expected.count(key) == 1) {
          EXPECT_EQ(found, expected[key]);
        }
        expected.erase(key);
        break;
      case 3:
        if (step % 5000 != 0) break;
        table->remove_if([](std::uint64_t, std::uint64_t held) { return held % 3 == 0; });
        std::erase_if(expected, [](const auto& entry) { return entry.second % 3 == 0; });
        break;
      default:
        EXPECT_EQ(table->find(key, found), expected.count(key) == 1);
    }
  }
  std::size_t seen = 0;
  table->each([&](std::uint64_t key, std::uint64_t value) {
    ++seen;
    EXPECT_EQ(expected.at(key), value);
  });
  EXPECT_EQ(seen, expected.size());
}

TEST(Table, TheKey0HasNoEntryHoweverManyOthersThereAre) {
  const auto table = std::make_unique<Table<std::uint64_t>>();
  for (std::uint64_t number = 0; number < 2000; ++number) {
    std::uint64_t found = 0;
    EXPECT_TRUE(table->insert(key_of(number), number));
    EXPECT_FALSE(table->find(0, found));
    EXPECT_FALSE(table->take(0, found));
    EXPECT_FALSE(table->insert(0, number));
    EXPECT_FALSE(table->update(0, [](std::uint64_t&) { return false; }));
  }
  std::size_t seen = 0;
  table->each([&](std::uint64_t, std::uint64_t) { ++seen; });
  EXPECT_EQ(seen, 2000U);
}

TEST(Table, EveryEntryIsTakenByExactlyOneOfManyThreads) {
  const auto table = std::make_unique<Table<std::uint64_t>>();
  constexpr std::uint64_t kKeys = 20'000;
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([&, index] {
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        if (key % 4 == static_cast<std::uint64_t>(index)) table->insert(key_of(key), key);
      }
      std::uint64_t value = 0;
      for (int round = 0; round < 50 && taken.load() < kKeys; ++round) {
        for (std::uint64_t key = 0; key < kKeys; ++key) {
          if (table->take(key_of(key), value)) {
            EXPECT_EQ(value, key);
            taken.fetch_add(1);
          }
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  table->each([&](std::uint64_t, std::uint64_t) { taken.fetch_add(1); });
  EXPECT_EQ(taken.load(), kKeys);
}

}  // namespace
}  // namespace ration::guard
