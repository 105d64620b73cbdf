// Allocators that what-if tries, at work on a device that only accounts.
#include "trace/whatif/allocators.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "recording_fixture.hpp"
#include "trace/open_recording.hpp"
#include "trace/whatif/replay.hpp"

namespace ration::trace {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr Bytes kEnough{std::uint64_t{1} << 40};

const std::vector<std::string>& tried() {
  static const std::vector<std::string> all{"pytorch",
                                            "pytorch:max_split_size_mb:64",
                                            "pytorch:expandable_segments:True",
                                            "pytorch:roundup_power2_divisions:4",
                                            "pytorch:garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
                                            "tensorflow",
                                            "tensorflow:growth:False",
                                            "cuda_malloc_async",
                                            "ration"};
  return all;
}

MakeAllocator make(const std::string& name) {
  auto found = find_allocator(name);
  EXPECT_TRUE(found) << name;
  return found->make;
}

/// An allocator on a device of its own.
struct Tried {
  explicit Tried(const std::string& name, Bytes limit = kEnough) : device(limit), allocator(make(name)(device, 4096)) {}
  AccountedDevice device;
  std::unique_ptr<TriedAllocator> allocator;
  /// In MiB.
  [[nodiscard]] std::uint64_t taken() const { return device.taken() / kMiB; }
};

// The figures are those of PyTorch's own torch.cuda.memory_reserved().
TEST(PyTorchModel, TakesSegmentsByTheSizeOfTheRequest) {
  Tried one("pytorch");
  EXPECT_TRUE(one.allocator->allocate(0, 1, 0));
  EXPECT_EQ(one.taken(), 2u);
  EXPECT_TRUE(one.allocator->allocate(1, kMiB, 0));
  EXPECT_EQ(one.taken(), 2u) << "it fits beside the first, with 512 bytes less than a segment left";
  EXPECT_TRUE(one.allocator->allocate(2, kMiB, 0));
  EXPECT_EQ(one.taken(), 4u);
  EXPECT_TRUE(one.allocator->allocate(3, kMiB + 1, 0));
  EXPECT_EQ(one.taken(), 24u);
  EXPECT_TRUE(one.allocator->allocate(4, 11 * kMiB + 1, 0));
  EXPECT_EQ(one.taken(), 24u) << "the rest of the 20 MiB";
  EXPECT_TRUE(one.allocator->allocate(5, 11 * kMiB + 1, 0));
  EXPECT_EQ(one.taken(), 36u);
}

TEST(PyTorchModel, KeepsWhatIsFreedAndGivesItBackBeforeItFails) {
  Tried one("pytorch", Bytes{100 * kMiB});
  EXPECT_TRUE(one.allocator->allocate(0, 60 * kMiB, 0));
  one.allocator->free(0);
  EXPECT_EQ(one.taken(), 60u);
  EXPECT_TRUE(one.allocator->allocate(1, 80 * kMiB, 0));
  EXPECT_EQ(one.taken(), 80u);
  EXPECT_FALSE(one.allocator->allocate(2, 30 * kMiB, 0));
}

TEST(PyTorchModel, ABlockOfAnotherStreamIsNotUsed) {
  Tried one("pytorch");
  EXPECT_TRUE(one.allocator->allocate(0, 60 * kMiB, 0));
  one.allocator->free(0);
  EXPECT_TRUE(one.allocator->allocate(1, 60 * kMiB, 1));
  EXPECT_EQ(one.taken(), 120u);
}

TEST(PyTorchModel, BlocksAboveTheLargestSplitStayWhole) {
  Tried one("pytorch:max_split_size_mb:64");
  EXPECT_TRUE(one.allocator->allocate(0, 100 * kMiB, 0));
  one.allocator->free(0);
  EXPECT_TRUE(one.allocator->allocate(1, 40 * kMiB, 0));
  EXPECT_EQ(one.taken(), 140u) << "100 MiB are not split for 40";
  EXPECT_TRUE(one.allocator->allocate(2, 90 * kMiB, 0));
  EXPECT_EQ(one.taken(), 140u) << "at most 20 MiB are wasted";
}

TEST(PyTorchModel, ExpandableSegmentsGrowByPages) {
  Tried one("pytorch:expandable_segments:True");
  EXPECT_TRUE(one.allocator->allocate(0, 30 * kMiB, 0));
  EXPECT_EQ(one.taken(), 40u);
  EXPECT_TRUE(one.allocator->allocate(1, 30 * kMiB, 0));
  EXPECT_EQ(one.taken(), 60u) << "the segment goes on where the first block ends";
  one.allocator->free(0);
  EXPECT_TRUE(one.allocator->allocate(2, 40 * kMiB, 0));
  EXPECT_EQ(one.taken(), 100u);
}

TEST(PyTorchModel, ExpandableSegmentsGiveBackWholePagesBeforeTheyFail) {
  Tried one("pytorch:expandable_segments:True", Bytes{100 * kMiB});
  EXPECT_TRUE(one.allocator->allocate(0, 1, 0));  // small blocks have a segment of their own
  for (std::uint32_t block = 1; block <= 3; ++block) EXPECT_TRUE(one.allocator->allocate(block, 20 * kMiB, 0));
  EXPECT_EQ(one.taken(), 62u);
  one.allocator->free(2);
  EXPECT_TRUE(one.allocator->allocate(4, 40 * kMiB, 0));
  EXPECT_EQ(one.taken(), 82u) << "the page between the others went back";
}

TEST(PyTorchModel, SizesAreRoundedToPartsOfAPowerOfTwo) {
  Tried one("pytorch:roundup_power2_divisions:4");
  EXPECT_TRUE(one.allocator->allocate(0, 1200 * kMiB, 0));
  EXPECT_EQ(one.taken(), 1280u);
  Tried two("pytorch:roundup_power2_divisions:[256:1,512:2,>:8]");
  EXPECT_TRUE(two.allocator->allocate(0, 200 * kMiB + 1, 0));
  EXPECT_EQ(two.taken(), 202u);
  EXPECT_TRUE(two.allocator->allocate(1, 520 * kMiB, 0));
  EXPECT_EQ(two.taken(), 202u + 768u);
  EXPECT_TRUE(two.allocator->allocate(2, 1030 * kMiB, 0));
  EXPECT_EQ(two.taken(), 202u + 768u + 1152u);
}

TEST(TensorFlowModel, RegionsDoubleAndLeaveRoomForTheSystem) {
  Tried one("tensorflow:reserve_mb:100", Bytes{1000 * kMiB});
  EXPECT_TRUE(one.allocator->allocate(0, 1, 0));
  EXPECT_EQ(one.taken(), 2u);
  EXPECT_TRUE(one.allocator->allocate(1, 3 * kMiB, 0));
  EXPECT_EQ(one.taken(), 6u);
  EXPECT_TRUE(one.allocator->allocate(2, 100 * kMiB, 0));
  EXPECT_EQ(one.taken(), 6u + 128u);
  EXPECT_TRUE(one.allocator->allocate(3, 700 * kMiB, 0));
  EXPECT_EQ(one.taken(), 900u) << "all but the reserve";
  EXPECT_FALSE(one.allocator->allocate(4, 100 * kMiB, 0));
}

TEST(TensorFlowModel, WithoutGrowthAllIsTakenAtTheFirstRequest) {
  Tried one("tensorflow:growth:False,fraction:0.5", Bytes{1000 * kMiB});
  EXPECT_TRUE(one.allocator->allocate(0, 1, 0));
  EXPECT_EQ(one.taken(), 500u);
}

TEST(PyTorchModel, CollectsGarbageUnderAFractionAlone) {
  // As PyTorch 2.15 was seen to do it (docs/pytorch.md): a fraction of 1 is none.
  const auto taken_after_growth = [](const char* settings) {
    Tried one(settings, Bytes{2048 * kMiB});
    for (std::uint32_t block = 0; block < 5; ++block) {
      EXPECT_TRUE(one.allocator->allocate(block, (200 + 50 * block) * kMiB, 0));
      one.allocator->free(block);
    }
    return one.taken();
  };
  const auto without = taken_after_growth("pytorch");
  EXPECT_EQ(taken_after_growth("pytorch:garbage_collection_threshold:0.4"), without);
  EXPECT_EQ(taken_after_growth("pytorch:garbage_collection_threshold:0.4,per_process_memory_fraction:1.0"), without);
  EXPECT_LT(taken_after_growth("pytorch:garbage_collection_threshold:0.4,per_process_memory_fraction:0.9"), without);
}

TEST(CudaAsyncModel, GrowsInStepsAndGivesIdleRegionsBackBeforeItFails) {
  Tried one("cuda_malloc_async", Bytes{100 * kMiB});
  EXPECT_TRUE(one.allocator->allocate(0, 33 * kMiB, 0));
  EXPECT_EQ(one.taken(), 64u);
  one.allocator->free(0);
  EXPECT_EQ(one.taken(), 64u);
  EXPECT_TRUE(one.allocator->allocate(1, 90 * kMiB, 0));
  EXPECT_EQ(one.taken(), 96u);
}

TEST(Allocators, WhatIsNoAllocatorOrSettingIsRejected) {
  for (const char* text :
       {"", "torch", "pytorch:max_split_size_mb", "pytorch:max_split_size_mb:x", "pytorch:max_split_size_mb:20",
        "pytorch:unknown:1", "pytorch:roundup_power2_divisions:3", "pytorch:roundup_power2_divisions:[256:1",
        "pytorch:expandable_segments:yes", "pytorch:garbage_collection_threshold:1.5", "tensorflow:growth:maybe",
        "tensorflow:fraction:0", "ration:x:1", "cuda_malloc_async:x:1"}) {
    const auto found = find_allocator(text);
    EXPECT_TRUE(!found && found.error().id == "E1813") << text;
  }
}

TEST(Allocators, AValueThatIsNoneIsTold) {
  const struct {
    const char *text, *value, *takes;
  } wrong[] = {
      {"pytorch:max_split_size_mb:-1", "'-1' is not a value of max_split_size_mb", "a number of MiB above 20"},
      {"pytorch:expandable_segments:True,garbage_collection_threshold:1", "'1' is not a value of", "below 1"},
      {"tensorflow:capability:7.5", "'7.5' is not a value of capability", "75 for 7.5"},
  };
  for (const auto& [text, value, takes] : wrong) {
    const auto found = find_allocator(text);
    ASSERT_FALSE(found) << text;
    EXPECT_NE(found.error().what.find(value), std::string::npos) << found.error().what;
    EXPECT_NE(found.error().what.find(takes), std::string::npos) << found.error().what;
  }
  EXPECT_NE(find_allocator("pytorch:split:1").error().what.find("'split' is not a setting"), std::string::npos);
}

/// Random requests of one process, some of them on a second stream.
Steps random_steps(unsigned seed, int count) {
  std::mt19937 random(seed);
  Recorded run;
  run.header().deep = true;
  std::vector<std::uint64_t> live;
  std::uint64_t next = 1;
  for (int step = 0; step < count; ++step) {
    if (!live.empty() && random() % 5 < 2) {
      std::swap(live[random() % live.size()], live.back());
      run.add(Kind::kFree, 0, 0, live.back());
      live.pop_back();
    } else {
      const std::uint64_t size = 1 + (random() % (std::uint64_t{1} << (random() % 26)));
      run.add(Kind::kAllocate, 0, size, next);
      live.push_back(next++);
    }
  }
  return *steps_of(run.recording(), 0);
}

TEST(Allocators, HoldAtLeastWhatIsLiveAndGiveEverythingBack) {
  for (const std::string& name : tried()) {
    const Steps steps = random_steps(3, 2000);
    AccountedDevice device(kEnough);
    auto allocator = make(name)(device, steps.blocks);
    std::uint64_t live = 0;
    for (const Step& step : steps.steps) {
      if (step.kind == StepKind::kAllocate) {
        ASSERT_TRUE(allocator->allocate(step.block, step.bytes, step.stream)) << name;
        live += step.bytes;
      } else {
        allocator->free(step.block);
        live -= step.bytes;
      }
      ASSERT_GE(device.taken(), live) << name;
    }
    allocator.reset();
    EXPECT_EQ(device.taken(), 0u) << name;
  }
}

TEST(Allocators, OneGranuleLessThanTheSmallestLimitIsDenied) {
  for (const std::string& name : tried()) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      const Steps steps = random_steps(seed, 800);
      const auto smallest = smallest_limit(steps, make(name));
      ASSERT_TRUE(smallest) << name;
      EXPECT_GE(*smallest, steps.peak_live) << name;
      EXPECT_FALSE(replay(steps, make(name), *smallest).denied) << name;
      EXPECT_TRUE(replay(steps, make(name), *smallest - kGranule).denied) << name;
    }
  }
}

TEST(Allocators, WhatIsTakenBesideThemCounts) {
  Recorded run;
  run.header().deep = true;
  run.add(Kind::kContextMade, 300 * static_cast<std::int64_t>(kMiB)).add(Kind::kAllocate, 0, 30 * kMiB, 1);
  const auto steps = steps_of(run.recording(), 0);
  ASSERT_TRUE(steps);
  EXPECT_EQ(smallest_limit(*steps, make("pytorch")), Bytes{330 * kMiB});
  const auto denied = replay(*steps, make("pytorch"), Bytes{200 * kMiB}).denied;
  ASSERT_TRUE(denied);
  EXPECT_EQ(steps->steps[*denied].kind, StepKind::kTaken);
}

TEST(Steps, OfADeepRecordingAreTheBlocksOfTheDriversPools) {
  constexpr std::int64_t kPool = 32 << 20, kOfALibrary = 4 << 20;
  Recorded run;
  run.header().deep = true;
  run.add(Kind::kPoolGrew, kPool, kPool).add(Kind::kAllocate, 0, 10 * kMiB, 1);
  run.add(Kind::kAllocate, kOfALibrary, kOfALibrary, 2).add(Kind::kFree, -kOfALibrary, 0, 2);
  run.add(Kind::kFree, 0, 0, 1).add(Kind::kPoolTrimmed, -kPool, kPool);
  const auto steps = steps_of(run.recording(), 0);
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->allocations, 1u);
  EXPECT_EQ(steps->peak_live, Bytes{14 * kMiB});
  std::vector<StepKind> kinds;
  for (const Step& step : steps->steps) kinds.push_back(step.kind);
  EXPECT_EQ(kinds, (std::vector{StepKind::kAllocate, StepKind::kTaken, StepKind::kGiven, StepKind::kFree}));
}

TEST(Steps, AProcessThatEndsGivesEverythingBack) {
  Recorded run;
  run.header().deep = true;
  run.add(Kind::kContextMade, 100).add(Kind::kAllocate, 0, 50, 1).add(Kind::kProcessEnded, -100);
  run.add(Kind::kContextMade, 120).add(Kind::kAllocate, 0, 40, 1);
  const auto steps = steps_of(run.recording(), 0);
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->peak_live, Bytes{160});
  EXPECT_EQ(steps->blocks, 1u);
}

TEST(Steps, NumbersOfBlocksAreUsedAgainAndAllocationsAtALiveAddressEndTheOldBlock) {
  Recorded run;
  run.header().deep = true;
  for (int round = 0; round < 50; ++round) run.add(Kind::kAllocate, 0, 100, 7);
  run.add(Kind::kFree, 0, 0, 7).add(Kind::kFree, 0, 0, 7);
  const auto steps = steps_of(run.recording(), 0);
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->blocks, 1u);
  EXPECT_EQ(steps->peak_live, Bytes{100});
  EXPECT_EQ(steps->steps.size(), 100u);
}

}  // namespace
}  // namespace ration::trace
