#include "ration/memory_resource.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ration/guard.hpp"

namespace ration {
namespace {

struct Resources : ::testing::Test {
  Runtime runtime;
  Resources() {
    for (const PhysicalDevice& gpu : runtime.list_physical_devices("GPU")) runtime.set_memory_growth(gpu, true);
  }
  [[nodiscard]] std::uint64_t in_use() { return runtime.get_memory_info("GPU:0").current; }
};

TEST_F(Resources, ABufferGivesItselfBack) {
  {
    Buffer<float> first(DeviceMemoryResource(runtime, 0), 1'000'000);
    EXPECT_NE(first.data(), nullptr);
    EXPECT_GE(in_use(), 4'000'000U);
    Buffer<float> second(std::move(first));
    EXPECT_EQ(first.data(), nullptr);  // NOLINT: what a moved-from buffer holds is promised
  }
  EXPECT_EQ(in_use(), 0U);
  EXPECT_THROW(Buffer<double>(DeviceMemoryResource(runtime, 0), SIZE_MAX / 2), ValueError);
}

TEST_F(Resources, AdaptorsComposeAndSeeTheSameCalls) {
  std::map<int, int> logged;
  LimitingAdaptor limited(DeviceMemoryResource(runtime, 0), 10 << 20);
  StatisticsAdaptor counted(limited);
  using Logging = LoggingAdaptor<decltype(counted)>;
  Logging logging(counted, [&](const Logging::Entry& entry) { ++logged[static_cast<int>(entry.action)]; });
  {
    Buffer<char, Logging> six(logging, 6 << 20);
    EXPECT_THROW((Buffer<char, Logging>(logging, 6 << 20)), MemoryLimitExceeded);
    Buffer<char, Logging> four(logging, 4 << 20);
    EXPECT_EQ(limited.taken(), 10U << 20) << "copies share one count";
  }
  EXPECT_EQ(counted.counts().bytes, 0U);
  EXPECT_EQ(counted.counts().peak_bytes, 10U << 20);
  EXPECT_EQ(counted.counts().allocations, 2U);
  EXPECT_EQ(counted.counts().refusals, 1U);
  EXPECT_EQ(logged, (std::map<int, int>{{0, 2}, {1, 2}, {2, 1}}));
  EXPECT_EQ(in_use(), 0U);
  EXPECT_THROW((void)limited.allocate(nullptr, SIZE_MAX), MemoryLimitExceeded) << "nothing overflows";
}

TEST_F(Resources, ResourcesAreEqualWhenEitherMayGiveBack) {
  EXPECT_EQ(DeviceMemoryResource(runtime, 0), DeviceMemoryResource(runtime, 0));
  EXPECT_NE(DeviceMemoryResource(runtime, 0), DeviceMemoryResource(runtime, 1));
}

TEST_F(Resources, AGuardCountsWhatABlockTakesAtItsPeak) {
  const auto use = [&] { Buffer<char> buffer(DeviceMemoryResource(runtime, 0), 64 << 20); };
  EXPECT_EQ(growth_of(runtime, use), 64U << 20);
  guard_memory(runtime, 64 << 20, "fits", use);
  EXPECT_THROW(guard_memory(runtime, 63 << 20, "leaks", use), MemoryLimitExceeded);
}

TEST_F(Resources, GuardsNest) {
  void* held = runtime.allocate(0, 1 << 30);
  EXPECT_NO_THROW(guard_memory(runtime, 1 << 20, "outer", [&] {
    runtime.deallocate(0, held);
    guard_memory(runtime, 1 << 20, "inner", [] {});
  }));
  EXPECT_THROW(guard_memory(runtime, 1 << 20, "outer",
                            [&] {
                              runtime.deallocate(0, runtime.allocate(0, 1 << 30));
                              guard_memory(runtime, 1 << 20, "inner", [] {});
                            }),
               MemoryLimitExceeded);
}

TEST_F(Resources, ALimitingAdaptorIsNotMovedByWhatItRefuses) {
  struct Nothing {
    void* allocate(StreamHandle, std::size_t, std::size_t) { return this; }
    void deallocate(StreamHandle, void*, std::size_t, std::size_t) {}
    bool operator==(const Nothing&) const = default;
  };
  constexpr std::size_t kLimit = 512 << 20;
  LimitingAdaptor limited(Nothing{}, kLimit);
  std::atomic<bool> ending{false};
  std::vector<std::thread> refused;
  for (int i = 0; i < 2; ++i) {
    refused.emplace_back([&] {
      while (!ending) EXPECT_THROW((void)limited.allocate(nullptr, std::size_t{0} - kLimit), MemoryLimitExceeded);
    });
  }
  for (int round = 0; round < 20'000; ++round) {
    void* first = limited.allocate(nullptr, kLimit);
    EXPECT_THROW((void)limited.allocate(nullptr, kLimit), MemoryLimitExceeded);
    limited.deallocate(nullptr, first, kLimit);
  }
  ending = true;
  for (auto& thread : refused) thread.join();
}

TEST_F(Resources, ALogThatThrowsLosesNothing) {
  using Logging = LoggingAdaptor<DeviceMemoryResource>;
  Logging logging(DeviceMemoryResource(runtime, 0), [](const Logging::Entry& entry) {
    if (entry.action == Logging::Entry::Action::kAllocate) throw std::runtime_error("the disk is full");
  });
  EXPECT_THROW((void)logging.allocate(nullptr, 1 << 20), std::runtime_error);
  EXPECT_EQ(in_use(), 0U);
}

TEST_F(Resources, TheChildOfAForkIsToldEverywhere) {
  Buffer<float> buffer(DeviceMemoryResource(runtime, 0), 1000);
  std::atomic<bool> ending{false};
  std::thread busy([&] {
    while (!ending) (void)runtime.get_memory_info("GPU:0");
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      int refused = 0;
      const auto count = [&](auto&& call) {
        try {
          call();
        } catch (const RuntimeError&) {
          ++refused;
        }
      };
      count([&] { (void)runtime.get_memory_info("GPU:0"); });
      count([&] { (void)runtime.trim(0); });
      count([&] { (void)runtime.memory_map_json(0); });
      count([&] { (void)runtime.list_physical_devices(); });
      count([&] { (void)runtime.allocate(0, 1000); });
      count([&] { runtime.set_memory_limit({"/physical_device:GPU:0", "GPU"}, 1 << 30); });
      buffer.release();
      ::_exit(refused);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 6);
  }
  ending = true;
  busy.join();
}

}  // namespace
}  // namespace ration
