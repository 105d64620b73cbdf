#include "trace/export/holdings.hpp"

#include <gtest/gtest.h>

#include <map>

#include "random_events.hpp"
#include "trace/export/part_sums.hpp"

namespace ration::trace {
namespace {

Header one_device() {
  Header header;
  header.devices.push_back({});
  header.processes.push_back({1, 0, "program"});
  header.sites.emplace_back();
  return header;
}

Event event(Kind kind, std::uint64_t address, std::uint64_t bytes, std::int64_t charged) {
  Event made;
  made.kind = kind;
  made.address = address;
  made.bytes = bytes;
  made.charged = charged;
  return made;
}

std::map<Part, std::uint64_t> by_part(const Holdings& holdings) {
  std::map<Part, std::uint64_t> sums;
  for (const Holding& holding : holdings.live()) sums[holding.part] += holding.bytes;
  return sums;
}

// Whatever was recorded: what is held adds up to the charges after each event and exceeds neither sum on the way.
TEST(HoldingsRandom, AddUpToTheChargesAfterEachEvent) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const MemoryRecording recording = random_recording(seed, 2000);
    Holdings holdings(recording.header());
    PartSums sums(recording.header());
    std::map<std::uint64_t, Holding> live;
    std::vector<std::int64_t> charged(places(recording.header()));
    recording.read([&](const Event& each) {
      const Place place = place_of(each, recording.header());
      const std::uint64_t before = sums.of(place);
      charged[place] += each.charged;
      const auto held = static_cast<std::uint64_t>(std::max<std::int64_t>(charged[place], 0));
      for (const Change& change : holdings.apply(each)) {
        sums.apply(change);
        EXPECT_EQ(live.erase(change.holding.id), change.came ? 0u : 1u);
        if (change.came) live[change.holding.id] = change.holding;
        EXPECT_LE(sums.of(place), std::max(before, held));
      }
      EXPECT_EQ(sums.of(place), held);
      EXPECT_EQ(holdings.held(place), held);
      return !testing::Test::HasFailure();
    });
    std::map<std::uint64_t, std::uint64_t> by_id, of_changes;
    for (const Holding& holding : holdings.live()) by_id[holding.id] = holding.bytes;
    for (const auto& [id, holding] : live) of_changes[id] = holding.bytes;
    ASSERT_EQ(by_id, of_changes) << "seed " << seed;
  }
}

TEST(Holdings, ABlockInsideAPoolLeavesThePoolSmaller) {
  Holdings holdings(one_device());
  holdings.apply(event(Kind::kPoolGrew, 0, 32, 32));
  holdings.apply(event(Kind::kAllocate, 7, 20, 0));
  EXPECT_EQ(by_part(holdings), (std::map<Part, std::uint64_t>{{Part::kBlock, 20}, {Part::kPool, 12}}));
  holdings.apply(event(Kind::kFree, 7, 0, 0));
  EXPECT_EQ(by_part(holdings), (std::map<Part, std::uint64_t>{{Part::kPool, 32}}));
  holdings.apply(event(Kind::kPoolTrimmed, 0, 32, -32));
  EXPECT_TRUE(holdings.live().empty());
}

TEST(Holdings, WhatTheDriverRoundsUpIsNobodysBlock) {
  Holdings holdings(one_device());
  holdings.apply(event(Kind::kAllocate, 1, 10, 100));
  holdings.apply(event(Kind::kAllocate, 2, 10, 0));  // in the same granule
  EXPECT_EQ(by_part(holdings), (std::map<Part, std::uint64_t>{{Part::kBlock, 20}, {Part::kRest, 80}}));
  holdings.apply(event(Kind::kFree, 1, 0, 0));
  holdings.apply(event(Kind::kFree, 2, 0, -100));
  EXPECT_TRUE(holdings.live().empty());
}

TEST(Holdings, AContextIsApartFromBlocksAndTakesThemAlong) {
  Holdings holdings(one_device());
  holdings.apply(event(Kind::kContextMade, 0, 0, 64));
  holdings.apply(event(Kind::kAllocate, 1, 10, 10));
  EXPECT_EQ(by_part(holdings), (std::map<Part, std::uint64_t>{{Part::kBlock, 10}, {Part::kContext, 64}}));
  holdings.apply(event(Kind::kContextEnded, 0, 0, -74));
  EXPECT_TRUE(holdings.live().empty());
}

TEST(Holdings, APeakIsTheFirstMomentThatHeldTheMost) {
  std::vector<Event> events{event(Kind::kAllocate, 1, 10, 10), event(Kind::kAllocate, 2, 20, 20),
                            event(Kind::kFree, 1, 0, -10), event(Kind::kAllocate, 3, 10, 10)};
  for (std::size_t i = 0; i < events.size(); ++i) events[i].time = static_cast<std::int64_t>(i);
  const MemoryRecording recording(one_device(), events);
  const Peak peak = peaks_of(recording).at(0);
  EXPECT_EQ(peak.bytes, 30u);
  EXPECT_EQ(peak.event, 2u);
  std::vector<std::uint64_t> addresses;
  for (const Holding& holding : held_at(recording, 0, peak)) addresses.push_back(holding.address);
  EXPECT_EQ(addresses, (std::vector<std::uint64_t>{1, 2}));
}

}  // namespace
}  // namespace ration::trace
