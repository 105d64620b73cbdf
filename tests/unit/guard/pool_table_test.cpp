#include "guard/hooks/pool_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ration::guard {

/// The one function of the governor that the table calls.
std::uint32_t account_of(cuda::CUdevice device) noexcept { return static_cast<std::uint32_t>(device) + 100; }

namespace {

// Handles as drivers give them: addresses side by side, more than places for
// those found before.
cuda::CUmemoryPool handle_of(std::uint64_t number) {
  return reinterpret_cast<cuda::CUmemoryPool>(0x7f0000001000 + number * 4096);
}
cuda::CUdevice device_of(std::uint64_t number) { return static_cast<cuda::CUdevice>(number); }

void remove(Pool& pool) {
  const Guard guard(pool.mutex);
  pool_table::forget_handle(pool);
  pool_table::release(pool);
}

class PoolTable : public testing::Test {
 protected:
  void TearDown() override { pool_table::abandon(); }
};

TEST_F(PoolTable, FindsAPoolAsItWasAddedWhileOthersComeAndGoInItsPlace) {
  constexpr std::uint64_t kWriters = 2, kHandlesEach = 96, kRounds = 100;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> found{0}, wrong{0};
  std::vector<std::thread> readers, writers;
  for (int index = 0; index < 2; ++index) {
    readers.emplace_back([&] {
      for (std::uint64_t number = 0; !done.load(); number = (number + 1) % (kWriters * kHandlesEach)) {
        Pool* pool = pool_table::find(handle_of(number));
        if (pool == nullptr) continue;
        if (pool->handle.load(std::memory_order_acquire) != handle_of(number)) continue;  // it left since
        const Guard guard(pool->mutex);
        if (pool->handle.load(std::memory_order_acquire) != handle_of(number)) continue;
        found.fetch_add(1, std::memory_order_relaxed);
        if (pool->device != device_of(number) || pool->account != account_of(device_of(number))) wrong.fetch_add(1);
      }
    });
  }
  for (std::uint64_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (std::uint64_t round = 0; round < kRounds || found.load() < 1000; ++round) {
        // Another pool of this thread has each place in each round.
        for (std::uint64_t index = 0; index < kHandlesEach; ++index) {
          const std::uint64_t number = writer * kHandlesEach + (index * 7 + round) % kHandlesEach;
          Pool* pool = pool_table::add(handle_of(number), device_of(number));
          if (pool == nullptr || pool_table::find(handle_of(number)) != pool) wrong.fetch_add(1);
          if (pool_table::add(handle_of(number), 7) != pool) wrong.fetch_add(1);
        }
        for (std::uint64_t index = 0; index < kHandlesEach; ++index) {
          const std::uint64_t number = writer * kHandlesEach + index;
          Pool* pool = pool_table::find(handle_of(number));
          if (pool == nullptr || pool->device != device_of(number)) {
            wrong.fetch_add(1);
            continue;
          }
          remove(*pool);
          if (pool_table::find(handle_of(number)) != nullptr) wrong.fetch_add(1);
        }
      }
    });
  }
  for (auto& thread : writers) thread.join();
  done = true;
  for (auto& thread : readers) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_LE(pool_table::size(), kWriters * kHandlesEach) << "places are used again";
}

TEST_F(PoolTable, FindsAPoolWithAllThatIsKnownOfItWhenItsHandleComesAgainInTheSamePlace) {
  constexpr std::uint64_t kRounds = 20'000;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> found{0}, wrong{0};
  std::thread reader([&] {
    while (!done.load(std::memory_order_relaxed)) {
      Pool* pool = pool_table::find(handle_of(1));
      if (pool == nullptr) continue;
      const Guard guard(pool->mutex);
      if (pool->handle.load(std::memory_order_acquire) != handle_of(1)) continue;
      found.fetch_add(1, std::memory_order_relaxed);
      if (pool->account != account_of(pool->device)) wrong.fetch_add(1, std::memory_order_relaxed);
    }
  });
  for (std::uint64_t round = 0; round < kRounds || found.load(std::memory_order_relaxed) < 100; ++round) {
    Pool* pool = pool_table::add(handle_of(1), device_of(round % 64));
    if (pool == nullptr) {
      wrong.fetch_add(1, std::memory_order_relaxed);
      break;
    }
    remove(*pool);
  }
  done = true;
  reader.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_EQ(pool_table::size(), 1U);
}

TEST_F(PoolTable, FindsNoPoolByTheHandleThatAForgottenOneHas) {
  for (std::uint64_t number = 0; number < 256; ++number) {
    Pool* pool = pool_table::add(handle_of(number), 0);
    ASSERT_NE(pool, nullptr);
    EXPECT_EQ(pool_table::find(handle_of(number)), pool);
    remove(*pool);
    EXPECT_EQ(pool_table::find(nullptr), nullptr);
  }
}

TEST_F(PoolTable, AFullOneTakesAnotherPoolOnceOneHasLeft) {
  for (std::uint64_t number = 0; number < pool_table::kMost; ++number)
    ASSERT_NE(pool_table::add(handle_of(number), 0), nullptr) << number;
  EXPECT_EQ(pool_table::add(handle_of(pool_table::kMost), 0), nullptr);
  EXPECT_EQ(pool_table::find(handle_of(pool_table::kMost)), nullptr);
  Pool* leaving = pool_table::find(handle_of(12345));
  ASSERT_NE(leaving, nullptr);
  remove(*leaving);
  EXPECT_EQ(pool_table::add(handle_of(pool_table::kMost), 0), leaving);
  EXPECT_EQ(pool_table::find(handle_of(12345)), nullptr);
  EXPECT_EQ(pool_table::find(handle_of(pool_table::kMost)), leaving);
}

}  // namespace
}  // namespace ration::guard
