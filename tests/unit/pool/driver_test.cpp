// The pool on a simulated device: every back end, and every driver call failing once.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "pool/driver_blocks.hpp"
#include "pool/pool.hpp"
#include "pool/vmm_backing.hpp"

namespace ration::pool {
namespace {

using namespace literals;

/// The simulated driver hands its faults out to a test in the same process by name.
struct Device {
  const driver::Driver& driver = *driver::Driver::get();
  cuda::CUcontext context = nullptr;

  Device() { EXPECT_EQ(driver.cuDevicePrimaryCtxRetain(&context, 0), cuda::CUDA_SUCCESS); }
  ~Device() { driver.cuDevicePrimaryCtxRelease_v2(0); }
  [[nodiscard]] std::uint64_t free_bytes() const {
    const driver::ContextScope scope(driver, context);
    std::size_t available = 0, total = 0;
    driver.cuMemGetInfo_v2(&available, &total);
    return available;
  }
};

std::unique_ptr<Pool> vmm_pool(const Device& device, Bytes limit, Failure& failure) {
  Options options;
  options.limit = limit;
  options.device = 2_GiB;
  return Pool::make(std::make_unique<VmmBacking>(device.driver, 0, device.context), options, failure);
}

TEST(DevicePool, TakesFromTheDeviceAndGivesEverythingBack) {
  const Device device;
  const std::uint64_t before = device.free_bytes();
  Failure failure = Failure::kNone;
  {
    const auto pool = vmm_pool(device, 512_MiB, failure);
    ASSERT_NE(pool, nullptr) << describe(failure);
    std::vector<std::uint64_t> blocks(40);
    for (auto& block : blocks) ASSERT_EQ(pool->allocate(0, 7_MiB, 256, block), Failure::kNone);
    EXPECT_EQ(before - device.free_bytes(), pool->statistics().bytes_reserved);
    for (std::size_t i = 0; i < blocks.size(); i += 2) EXPECT_EQ(pool->deallocate(0, blocks[i]), Failure::kNone);
    std::uint64_t large = 0;
    EXPECT_EQ(pool->allocate(0, 300_MiB, 256, large), Failure::kNone) << "needs granules that were moved";
    EXPECT_LE(before - device.free_bytes(), (512_MiB).count());
    pool->trim();
    EXPECT_EQ(before - device.free_bytes(), pool->statistics().bytes_reserved);
  }
  EXPECT_EQ(device.free_bytes(), before);
}

TEST(DevicePool, AsyncAndDirectTakeAndGiveBack) {
  const Device device;
  const std::uint64_t before = device.free_bytes();
  for (const auto kind : {DriverBlocks::Kind::kDirect, DriverBlocks::Kind::kAsync}) {
    DriverBlocks blocks(device.driver, 0, device.context, kind, 64_MiB);
    std::uint64_t first = 0, second = 0;
    EXPECT_EQ(blocks.allocate(0, 40_MiB, 256, first), Failure::kNone);
    EXPECT_EQ(blocks.allocate(0, 40_MiB, 256, second), Failure::kOverLimit);
    EXPECT_EQ(blocks.deallocate(0, first + 256), Failure::kForeignPointer);
    EXPECT_EQ(blocks.deallocate(0, first), Failure::kNone);
    EXPECT_EQ(blocks.deallocate(0, first), Failure::kForeignPointer);
    EXPECT_EQ(blocks.statistics().bytes_in_use, 0U);
    EXPECT_EQ(blocks.statistics().peak_bytes_in_use, (40_MiB).count());
    blocks.trim();
    EXPECT_EQ(device.free_bytes(), before);
  }
}

/// A backing that is asked before each of its calls whether it is to be made.
class Asked : public Backing {
 public:
  explicit Asked(std::unique_ptr<Backing> inner) : inner_(std::move(inner)) {}
  Outcome reserve(Bytes size, std::uint64_t& base) final {
    return made([&] { return inner_->reserve(size, base); });
  }
  Outcome create(Granule& out) final {
    return made([&] { return inner_->create(out); });
  }
  void destroy(Granule granule) override { inner_->destroy(granule); }
  Outcome map(std::uint64_t address, const Granule* granules, std::size_t count) final {
    return made([&] { return inner_->map(address, granules, count); });
  }
  Outcome unmap(std::uint64_t address, Bytes size) final {
    return made([&] { return inner_->unmap(address, size); });
  }
  Outcome order(Stream earlier, Stream later) final {
    return made([&] { return inner_->order(earlier, later); });
  }
  Outcome finish() final {
    return made([&] { return inner_->finish(); });
  }
  Bytes available() final { return inner_->available(); }

 protected:
  /// Anything but kOk is the answer in place of the call.
  virtual Outcome answer() = 0;

 private:
  template <typename Call>
  Outcome made(Call&& call) {
    const Outcome instead = answer();
    return instead == Outcome::kOk ? call() : instead;
  }
  std::unique_ptr<Backing> inner_;
};

/// Its n-th call fails.
class Failing final : public Asked {
 public:
  Failing(std::unique_ptr<Backing> inner, std::uint64_t fails_at, Outcome how)
      : Asked(std::move(inner)), fails_at_(fails_at), how_(how) {}

 private:
  Outcome answer() override { return ++calls_ == fails_at_ ? how_ : Outcome::kOk; }
  std::uint64_t fails_at_;
  Outcome how_;
};

/// Growth, moving, several streams, trimming and a lowered limit; whatever is refused on the way.
void exercise(Pool& pool) {
  std::vector<std::uint64_t> blocks;
  const auto take = [&](Stream stream, Bytes size) {
    std::uint64_t address = 0;
    if (pool.allocate(stream, size, 256, address) == Failure::kNone) blocks.push_back(address);
  };
  for (int i = 0; i < 12; ++i) take(0, 3_MiB);
  for (int i = 0; i < 100; ++i) take(1, 40_KiB);
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    (void)pool.deallocate(i % 4 == 0 ? 0 : 1, blocks[i]);
    blocks[i] = 0;
  }
  take(1, 18_MiB);
  (void)pool.trim();
  take(0, 10_MiB);
  pool.set_limit(16_MiB);
  for (const std::uint64_t block : blocks) (void)pool.deallocate(0, block);
  pool.set_limit(64_MiB);
  std::uint64_t last = 0;
  Failure failure = pool.allocate(0, 30_MiB, 256, last);  // sound again, but on a lost device
  if (failure != Failure::kNone)
    failure = pool.allocate(0, 30_MiB, 256, last);  // that may have been the call that fails
  if (failure != Failure::kDeviceLost) {
    EXPECT_EQ(failure, Failure::kNone) << describe(failure);
    EXPECT_EQ(pool.deallocate(0, last), Failure::kNone);
  }
  EXPECT_EQ(pool.statistics().bytes_in_use, 0U);
}

TEST(DevicePool, IsSoundAfterAnyDriverCallHasFailedAndLeavesNothingBehind) {
  const Device device;
  const std::uint64_t before = device.free_bytes();
  for (const Outcome how : {Outcome::kOutOfMemory, Outcome::kFailed, Outcome::kDeviceLost}) {
    bool reached = true;
    for (std::uint64_t call = 1; reached; ++call) {
      auto failing =
          std::make_unique<Failing>(std::make_unique<VmmBacking>(device.driver, 0, device.context), call, how);
      const Failing& backing = *failing;
      Options options;
      options.limit = 48_MiB;
      options.device = 256_MiB;
      Failure failure = Failure::kNone;
      const auto pool = Pool::make(std::move(failing), options, failure);
      if (pool == nullptr) {
        EXPECT_EQ(call, 1U);
        continue;
      }
      exercise(*pool);
      reached = backing.calls() >= call;
      ASSERT_LT(call, 2000U);
    }
    EXPECT_EQ(device.free_bytes(), before) << static_cast<int>(how);
  }
}

/// Knows of one thread that must not call the driver any more.
class Watching final : public Asked {
 public:
  using Asked::Asked;
  std::atomic<std::thread::id> ending{};
  std::atomic<bool> called{false};
  void destroy(Granule granule) override {
    (void)answer();
    Asked::destroy(granule);
  }

 private:
  Outcome answer() override {
    if (std::this_thread::get_id() == ending.load()) called = true;
    return Outcome::kOk;
  }
};

TEST(DevicePool, DoesNotCallTheDriverFromAThreadThatEnds) {
  const Device device;
  auto watching = std::make_unique<Watching>(std::make_unique<VmmBacking>(device.driver, 0, device.context));
  Watching& backing = *watching;
  Options options;
  options.limit = 64_MiB;
  options.device = 256_MiB;
  Failure failure = Failure::kNone;
  const auto pool = Pool::make(std::move(watching), options, failure);
  std::thread worker([&] {
    std::uint64_t blocks[16];
    for (auto& block : blocks) ASSERT_EQ(pool->allocate(0, 1_KiB, 256, block), Failure::kNone);
    // Given back on other streams: to bring them together again takes an event.
    for (int i = 0; i < 16; ++i) ASSERT_EQ(pool->deallocate(static_cast<Stream>(i % 3), blocks[i]), Failure::kNone);
    backing.ending = std::this_thread::get_id();
  });
  worker.join();
  EXPECT_FALSE(backing.called) << "what a driver keeps for the thread may be gone already";
  pool->trim();
  EXPECT_EQ(pool->statistics().bytes_reserved, 0U) << "what the thread kept is not lost";
}

// Faults that other allocators had (peers.md section 5).

TEST(DevicePool, GivesUpAtOnceOnADeviceThatKeepsRefusing) {
  const Device device;
  Options options;
  options.limit = 1_GiB;
  options.device = 1_GiB;
  Failure failure = Failure::kNone;
  class Refusing final : public Backing {
   public:
    Outcome reserve(Bytes, std::uint64_t& base) override { return base = 1 << 30, Outcome::kOk; }
    Outcome create(Granule&) override { return ++calls_, Outcome::kOutOfMemory; }
    void destroy(Granule) override {}
    Outcome map(std::uint64_t, const Granule*, std::size_t) override { return Outcome::kOk; }
    Outcome unmap(std::uint64_t, Bytes) override { return Outcome::kOk; }
    Outcome order(Stream, Stream) override { return Outcome::kOk; }
    Outcome finish() override { return Outcome::kOk; }
    Bytes available() override { return Bytes{0}; }
  };
  auto refusing = std::make_unique<Refusing>();
  const Refusing& backing = *refusing;
  const auto pool = Pool::make(std::move(refusing), options, failure);
  std::uint64_t address = 0;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pool->allocate(0, 512_MiB, 256, address), Failure::kDeviceFull);
  EXPECT_LE(backing.calls(), 10U);
  EXPECT_EQ(pool->statistics().bytes_reserved, 0U);
}

TEST(DevicePool, UsesItsOwnContextWhateverTheProgramsCurrentOneIs) {
  const Device device;
  cuda::CUcontext other = nullptr;
  ASSERT_EQ(device.driver.cuDevicePrimaryCtxRetain(&other, 1), cuda::CUDA_SUCCESS);
  Failure failure = Failure::kNone;
  const std::uint64_t before = device.free_bytes();
  {
    const driver::ContextScope elsewhere(device.driver, other);
    const auto pool = vmm_pool(device, 64_MiB, failure);
    std::uint64_t address = 0;
    ASSERT_EQ(pool->allocate(0, 16_MiB, 256, address), Failure::kNone);
    EXPECT_EQ(before - device.free_bytes(), (16_MiB).count());
    EXPECT_EQ(pool->deallocate(0, address), Failure::kNone);
    EXPECT_EQ(pool->trim(), 16_MiB);
  }
  EXPECT_EQ(device.free_bytes(), before);
  device.driver.cuDevicePrimaryCtxRelease_v2(1);
}

TEST(DevicePool, BlocksBeyondFourGibibytesAreNotCutShort) {
  const Device device;
  Options options;
  options.device = 16_GiB;
  options.limit = 12_GiB;
  Failure failure = Failure::kNone;
  const auto pool = Pool::make(std::make_unique<VmmBacking>(device.driver, 1,
                                                            [&] {
                                                              cuda::CUcontext context = nullptr;
                                                              device.driver.cuDevicePrimaryCtxRetain(&context, 1);
                                                              return context;
                                                            }()),
                               options, failure);
  ASSERT_NE(pool, nullptr);
  std::uint64_t large = 0, small = 0;
  ASSERT_EQ(pool->allocate(0, Bytes{(5_GiB).count() + 1}, 256, large), Failure::kNone);
  ASSERT_EQ(pool->allocate(0, 3_GiB, 256, small), Failure::kNone);
  EXPECT_TRUE(small >= large + (5_GiB).count() || small + (3_GiB).count() <= large);
  EXPECT_GE(pool->statistics().bytes_in_use, (8_GiB).count());
  EXPECT_EQ(pool->deallocate(0, large), Failure::kNone);
  EXPECT_EQ(pool->deallocate(0, small), Failure::kNone);
  EXPECT_EQ(pool->statistics().bytes_in_use, 0U);
  EXPECT_GE(pool->trim(), 8_GiB);
}

TEST(DevicePool, ManyPoolsDoNotUseUpTheAddresses) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer leaves a process few addresses";
#endif
  const Device device;
  std::vector<std::unique_ptr<Pool>> pools;
  for (int i = 0; i < 16; ++i) {
    Failure failure = Failure::kNone;
    Options options;
    options.device = 192_GiB;
    options.limit = 1_GiB;
    pools.push_back(Pool::make(std::make_unique<VmmBacking>(device.driver, 0, device.context), options, failure));
    ASSERT_NE(pools.back(), nullptr) << describe(failure);
  }
}

TEST(DevicePool, TheDriversOwnPoolKeepsToTheLimitUnderRandomRequests) {
  const Device device;
  const std::uint64_t before = device.free_bytes();
  DriverBlocks blocks(device.driver, 0, device.context, DriverBlocks::Kind::kAsync, 1000_MiB);
  std::mt19937_64 random(5);
  std::vector<std::uint64_t> live;
  std::uint64_t granted = 0, refused = 0;
  for (int step = 0; step < 3000; ++step) {
    if (live.size() < 40 && random() % 2 == 0) {
      std::uint64_t address = 0;
      if (blocks.allocate(0, Bytes{(1 + random() % 150) << 20}, 256, address) == Failure::kNone) {
        live.push_back(address);
        ++granted;
      } else {
        ++refused;
      }
    } else if (!live.empty()) {
      const std::size_t place = random() % live.size();
      ASSERT_EQ(blocks.deallocate(0, live[place]), Failure::kNone);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(place));
    }
    ASSERT_LE(before - device.free_bytes(), (1000_MiB).count()) << "in step " << step;
  }
  EXPECT_GT(granted, 500U);
  EXPECT_GT(refused, 50U);
  blocks.set_limit(100_MiB);  // below what is in use: worked off as blocks come back
  for (const std::uint64_t address : live) ASSERT_EQ(blocks.deallocate(0, address), Failure::kNone);
  EXPECT_LE(before - device.free_bytes(), (100_MiB).count());
}

TEST(DevicePool, TheLimitIsHeldAgainstItsOwnMemoryAlone) {
  const Device device;
  DriverBlocks one(device.driver, 0, device.context, DriverBlocks::Kind::kAsync, 512_MiB);
  DriverBlocks other(device.driver, 0, device.context, DriverBlocks::Kind::kAsync, 512_MiB);
  std::uint64_t first = 0, second = 0;
  EXPECT_EQ(one.allocate(0, 300_MiB, 256, first), Failure::kNone);
  EXPECT_EQ(other.allocate(0, 300_MiB, 256, second), Failure::kNone);
  EXPECT_LE(one.statistics().bytes_reserved, (320_MiB).count());
  EXPECT_EQ(one.deallocate(0, second), Failure::kForeignPointer);
}

TEST(DevicePool, EveryBackEndAlignsAsAsked) {
  const Device device;
  for (const auto kind : {DriverBlocks::Kind::kDirect, DriverBlocks::Kind::kAsync, DriverBlocks::Kind::kManaged}) {
    DriverBlocks blocks(device.driver, 0, device.context, kind, 512_MiB);
    for (std::uint64_t alignment = 1; alignment <= (2_MiB).count(); alignment *= 2) {
      std::uint64_t address = 0;
      ASSERT_EQ(blocks.allocate(0, Bytes{1000}, alignment, address), Failure::kNone) << alignment;
      EXPECT_EQ(address % alignment, 0U);
      EXPECT_EQ(blocks.deallocate(0, address), Failure::kNone);
    }
    std::uint64_t address = 0;
    EXPECT_EQ(blocks.allocate(0, Bytes{1000}, 4 << 20, address), Failure::kBadAlignment);
    EXPECT_EQ(blocks.statistics().bytes_in_use, 0U);
  }
}

}  // namespace
}  // namespace ration::pool

int main(int argc, char** argv) {
  char folder[] = "/tmp/ration-pool-test-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  ::setenv("RATION_SIM", "T4:2GiB,T4:16GiB", 1);
  ::setenv("RATION_SIM_DIR", folder, 1);
  // The driver that the pool finds by its name from now on.
  if (::dlopen(SIM_FOLDER "/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::filesystem::remove_all(folder);
  return result;
}
