#include "pool/pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "pool/host_backing.hpp"

namespace ration::pool {
namespace {

using namespace literals;

std::unique_ptr<Pool> host_pool(Bytes limit, Bytes capacity, bool growth = true) {
  Options options;
  options.limit = limit;
  options.device = capacity;
  options.growth = growth;
  Failure failure = Failure::kNone;
  auto pool = Pool::make(std::make_unique<HostBacking>(capacity), options, failure);
  EXPECT_EQ(failure, Failure::kNone);
  return pool;
}

std::uint64_t take(Pool& pool, Bytes size, Stream stream = 0, std::uint64_t alignment = 256) {
  std::uint64_t address = 0;
  EXPECT_EQ(pool.allocate(stream, size, alignment, address), Failure::kNone);
  return address;
}

/// Random requests of every size from `threads` threads; every block is filled with its own number, which must still be
/// there when it is given back.
void play(Pool& pool, unsigned seed, int steps, std::uint64_t largest, Stream streams) {
  struct Held {
    std::uint64_t address, size, mark;
  };
  std::vector<Held> held;
  std::mt19937_64 random(seed);
  for (int step = 0; step < steps; ++step) {
    const Stream stream = streams == 1 ? 0 : 100 + random() % streams;
    if (held.empty() || random() % 2 == 0) {
      const std::uint64_t size = 1 + (random() >> 20) % (std::uint64_t{1} << (1 + random() % 22));
      const std::uint64_t alignment = random() % 8 == 0 ? 1U << random() % 17 : 256;
      std::uint64_t address = 0;
      const Failure failure = pool.allocate(stream, Bytes{std::min(size, largest)}, alignment, address);
      if (failure == Failure::kOverLimit || failure == Failure::kDeviceFull) {
        continue;
      }
      ASSERT_EQ(failure, Failure::kNone);
      ASSERT_EQ(address % std::max<std::uint64_t>(alignment, 256), 0U);
      const std::uint64_t mark = random();
      const std::uint64_t bytes = std::min(size, largest);
      std::memcpy(reinterpret_cast<void*>(address), &mark, std::min<std::size_t>(bytes, 8));
      if (bytes >= 16) std::memcpy(reinterpret_cast<void*>(address + bytes - 8), &mark, 8);
      held.push_back({address, bytes, mark});
    } else {
      std::swap(held[random() % held.size()], held.back());
      const Held gone = held.back();
      held.pop_back();
      ASSERT_EQ(std::memcmp(reinterpret_cast<void*>(gone.address), &gone.mark, std::min<std::size_t>(gone.size, 8)), 0);
      if (gone.size >= 16) {
        ASSERT_EQ(std::memcmp(reinterpret_cast<void*>(gone.address + gone.size - 8), &gone.mark, 8), 0);
      }
      ASSERT_EQ(pool.deallocate(stream, gone.address), Failure::kNone);
    }
    if (step % 5000 == 4999) pool.trim();
  }
  for (const Held& block : held) ASSERT_EQ(pool.deallocate(0, block.address), Failure::kNone);
}

TEST(Pool, KeepsEveryBlocksContentsApartUnderRandomOperations) {
  const char* more = std::getenv("RATION_POOL_STEPS");  // 10 million by hand
  const int steps = more == nullptr ? 60'000 : std::atoi(more);
  for (const Stream streams : {1, 3}) {
    const auto pool = host_pool(96_MiB, 128_MiB);
    play(*pool, 1, steps, 8 << 20, streams);
    EXPECT_EQ(pool->statistics().bytes_in_use, 0U);
    EXPECT_EQ(pool->statistics().live_blocks, 0U);
    EXPECT_LE(pool->statistics().peak_bytes_reserved, (96_MiB).count());
    pool->trim();
    EXPECT_EQ(pool->statistics().bytes_reserved, 0U) << "nothing is held, nothing stays";
  }
}

TEST(Pool, KeepsBlocksApartWithManyThreads) {
  const auto pool = host_pool(192_MiB, 192_MiB);
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < 4; ++index) {
    threads.emplace_back([&, index] { play(*pool, index, 20'000, 1 << 20, 1); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool->statistics().bytes_in_use, 0U);
  pool->trim();
  EXPECT_EQ(pool->statistics().bytes_reserved, 0U) << "threads that ended keep nothing";
}

TEST(Pool, ALimitIsReachedAndNotPassed) {
  const auto pool = host_pool(32_MiB, 64_MiB);
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(take(*pool, 4_MiB));
  std::uint64_t address = 0;
  EXPECT_EQ(pool->allocate(0, 4_MiB, 256, address), Failure::kOverLimit);
  EXPECT_EQ(pool->statistics().bytes_reserved, (32_MiB).count());
  EXPECT_EQ(pool->deallocate(0, blocks[3]), Failure::kNone);
  take(*pool, 4_MiB);
}

TEST(Pool, ALargeBlockIsPutTogetherFromScatteredGranules) {
  const auto pool = host_pool(32_MiB, 64_MiB);
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(take(*pool, 2_MiB));
  for (int i = 0; i < 16; i += 2) EXPECT_EQ(pool->deallocate(0, blocks[static_cast<std::size_t>(i)]), Failure::kNone);
  std::memset(reinterpret_cast<void*>(blocks[1]), 7, 2 << 20);
  const std::uint64_t large = take(*pool, 16_MiB);
  std::memset(reinterpret_cast<void*>(large), 9, 16 << 20);
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(blocks[1]), 7) << "what is held does not move";
  EXPECT_EQ(pool->statistics().bytes_reserved, (32_MiB).count());
}

TEST(Pool, ALoweredLimitGivesBackWhatIsFreeAtOnceAndTheRestWhenItIsReleased) {
  const auto pool = host_pool(64_MiB, 64_MiB);
  const std::uint64_t kept = take(*pool, 16_MiB), gone = take(*pool, 16_MiB);
  EXPECT_EQ(pool->deallocate(0, gone), Failure::kNone);
  pool->set_limit(8_MiB);
  EXPECT_EQ(pool->statistics().bytes_reserved, (16_MiB).count());
  std::uint64_t address = 0;
  EXPECT_EQ(pool->allocate(0, 4_MiB, 256, address), Failure::kOverLimit);
  EXPECT_EQ(pool->deallocate(0, kept), Failure::kNone);
  EXPECT_LE(pool->statistics().bytes_reserved, (8_MiB).count());
  take(*pool, 4_MiB);
}

TEST(Pool, ALoweredLimitIsWorkedOffBySmallBlocksToo) {
  Failure failure = Failure::kNone;
  Options options;
  options.device = 1_GiB;
  const auto pool = Pool::make(std::make_unique<HostBacking>(1_GiB), options, failure);
  std::vector<std::uint64_t> blocks(6'000);
  for (auto& block : blocks) ASSERT_EQ(pool->allocate(0, Bytes{3000}, 256, block), Failure::kNone);
  pool->set_limit(4_MiB);
  std::uint64_t held = pool->statistics().bytes_reserved;
  ASSERT_GT(held, (16_MiB).count());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_EQ(pool->deallocate(0, blocks[i]), Failure::kNone);
    std::uint64_t large = 0;
    if (held > (4_MiB).count() && i % 100 == 0) {
      ASSERT_EQ(pool->allocate(0, 3_MiB, 256, large), Failure::kOverLimit);
    }
    const std::uint64_t now = pool->statistics().bytes_reserved;
    ASSERT_LE(now, held) << "nothing more is taken until it is under";
    held = now;
  }
  EXPECT_LE(held, (4_MiB).count());
  EXPECT_EQ(pool->statistics().bytes_in_use, 0U);
  pool->trim();
  std::uint64_t large = 0;
  EXPECT_EQ(pool->allocate(0, 3_MiB, 256, large), Failure::kNone);
}

TEST(Pool, WithoutGrowthEverythingIsTakenAtTheStart) {
  const auto pool = host_pool(32_MiB, 64_MiB, false);
  EXPECT_EQ(pool->statistics().bytes_reserved, (32_MiB).count());
  const std::uint64_t calls = pool->statistics().driver_calls;
  EXPECT_EQ(pool->deallocate(0, take(*pool, 30_MiB)), Failure::kNone);
  EXPECT_EQ(pool->statistics().driver_calls, calls);
}

TEST(Pool, NamesWhatIsWrongWithAPointerAndGoesOn) {
  const auto pool = host_pool(64_MiB, 64_MiB);
  for (const Bytes size : {1_KiB, 100_KiB, 8_MiB}) {
    const std::uint64_t address = take(*pool, size), neighbour = take(*pool, size);
    EXPECT_EQ(pool->deallocate(0, address + 256), Failure::kForeignPointer);
    EXPECT_EQ(pool->deallocate(0, address), Failure::kNone);
    EXPECT_EQ(pool->deallocate(0, address), Failure::kFreedPointer);
    EXPECT_EQ(pool->deallocate(0, neighbour), Failure::kNone);
  }
  int local = 0;
  EXPECT_EQ(pool->deallocate(0, reinterpret_cast<std::uint64_t>(&local)), Failure::kForeignPointer);
  EXPECT_EQ(pool->deallocate(0, 0), Failure::kNone);
  EXPECT_EQ(pool->statistics().bytes_in_use, 0U);
  play(*pool, 3, 2000, 1 << 20, 1);
}

TEST(Pool, RefusesSizesAndAlignmentsThatMakeNoSense) {
  const auto pool = host_pool(64_MiB, 64_MiB);
  std::uint64_t address = 1;
  EXPECT_EQ(pool->allocate(0, 0_B, 256, address), Failure::kNone);
  EXPECT_EQ(address, 0U);
  for (const std::uint64_t alignment : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{768}, std::uint64_t{4} << 20})
    EXPECT_EQ(pool->allocate(0, 1_KiB, alignment, address), Failure::kBadAlignment) << alignment;
  EXPECT_EQ(pool->allocate(0, Bytes{~std::uint64_t{0}}, 256, address), Failure::kBadSize);
  EXPECT_EQ(pool->allocate(0, Bytes{~std::uint64_t{0} - 100}, 1 << 20, address), Failure::kBadSize);
  EXPECT_EQ(pool->allocate(0, Bytes{std::uint64_t{1} << 61}, 256, address), Failure::kOverLimit);
  EXPECT_EQ(pool->statistics().num_allocs, 0U);
}

TEST(Pool, CountsAsTheProgramDoes) {
  const auto pool = host_pool(64_MiB, 64_MiB);
  const std::uint64_t small = take(*pool, 1000_B), large = take(*pool, 4_MiB);
  EXPECT_EQ(pool->statistics().bytes_in_use, 1024U + (4U << 20));
  EXPECT_EQ(pool->statistics().num_allocs, 2U);
  EXPECT_EQ(pool->statistics().largest_alloc_size, 4U << 20);
  EXPECT_EQ(pool->deallocate(0, large), Failure::kNone);
  EXPECT_EQ(pool->statistics().peak_bytes_in_use, 1024U + (4U << 20));
  pool->reset_peaks();
  EXPECT_EQ(pool->statistics().peak_bytes_in_use, 1024U);
  EXPECT_EQ(pool->deallocate(0, small), Failure::kNone);
}

TEST(Pool, FragmentationOfAFullPoolIsNothing) {
  const auto pool = host_pool(4_MiB, 4_MiB);
  take(*pool, 4_MiB);
  EXPECT_EQ(pool->statistics().fragmentation(), 0.0);
}

TEST(Pool, RefusesEverythingInTheChildOfAFork) {
  const auto pool = host_pool(64_MiB, 64_MiB);
  const std::uint64_t small = take(*pool, 1_KiB), large = take(*pool, 4_MiB);
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t address = 0;
    const bool refused = pool->allocate(0, 1_KiB, 256, address) == Failure::kForked &&
                         pool->allocate(0, 4_MiB, 256, address) == Failure::kForked &&
                         pool->deallocate(0, small) == Failure::kForked &&
                         pool->deallocate(0, large) == Failure::kForked;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pool->deallocate(0, small), Failure::kNone) << "the parent's pool lives on";
}

TEST(Pool, RefusesEverythingAfterShutdown) {
  const auto pool = host_pool(64_MiB, 64_MiB);
  take(*pool, 1_KiB);
  pool->close();
  std::uint64_t address = 0;
  EXPECT_EQ(pool->allocate(0, 1_KiB, 256, address), Failure::kClosed);
  EXPECT_EQ(pool->allocate(0, 4_MiB, 256, address), Failure::kClosed);
}

}  // namespace
}  // namespace ration::pool
