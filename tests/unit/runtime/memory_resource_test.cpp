#include "ration/memory_resource.hpp"

#include <gtest/gtest.h>

#include <map>
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

}  // namespace
}  // namespace ration
