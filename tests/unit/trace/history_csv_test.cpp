// Allocation histories as recordings.
#include <gtest/gtest.h>

#include <map>

#include "../temporary.hpp"
#include "events_of.hpp"
#include "trace/open_recording.hpp"

namespace ration::trace {
namespace {

std::vector<Event> events_of(const std::string& content) {
  const TemporaryFolder folder;
  const auto recording = open_recording(folder.write("run.csv", content));
  EXPECT_TRUE(recording) << recording.error().what;
  return recording ? events_of(**recording) : std::vector<Event>{};
}

std::string failure_of(const std::string& content) {
  const TemporaryFolder folder;
  const auto recording = open_recording(folder.write("run.csv", content));
  return recording ? "" : recording.error().id;
}

// The figures are those of share/ration/traces/README.md.
TEST(HistoryCsv, HasTheEventsAndThePeakOfEachBundledTrace) {
  const std::map<std::string, std::pair<std::size_t, double>> traces{
      {"bcrafton_forward_backward", {4771, 3675.2}}, {"medium_1024_inference", {2783, 2746.0}},
      {"medium_128_training", {13495, 6690.3}},      {"medium_256_training", {13691, 8683.7}},
      {"medium_512_inference", {3555, 1860.9}},      {"medium_512_training", {15625, 11852.8}}};
  for (const auto& [name, expected] : traces) {
    const auto recording = open_recording(RATION_SOURCE "/share/ration/traces/" + name + ".csv");
    ASSERT_TRUE(recording) << name;
    EXPECT_EQ((*recording)->header().workload, name);
    EXPECT_FALSE((*recording)->header().booked);
    std::int64_t held = 0, peak = 0, time = 0;
    const auto events = events_of(**recording);
    for (const Event& event : events) {
      held += event.charged;
      peak = std::max(peak, held);
      EXPECT_GE(event.time, time);
      time = event.time;
    }
    EXPECT_EQ(events.size(), expected.first) << name;
    EXPECT_NEAR(static_cast<double>(peak) / (1 << 20), expected.second, 0.05) << name;
  }
}

TEST(HistoryCsv, ABlockIsFreedAtItsAddressAndItsNumberMayReturn) {
  const auto events =
      events_of("t_us,op,id,size,stream\n1,a,7,1000,0\n2,a,8,10,3\n3,f,7,0,0\n4,a,7,20,0\n5,f,7,20,0\n");
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].address, events[0].address + 1024);
  EXPECT_EQ(events[1].stream, 3u);
  EXPECT_EQ(events[2].kind, Kind::kFree);
  EXPECT_EQ(events[2].address, events[0].address);
  EXPECT_EQ(events[2].charged, -1000);
  EXPECT_EQ(events[4].address, events[3].address);
  EXPECT_EQ(events[4].charged, -20);
  EXPECT_EQ(events[4].time, 5000);
}

TEST(HistoryCsv, LeavesOutWhatChangesNothing) {
  EXPECT_EQ(events_of("t_us,op,id,size,stream\n1,f,7,0,0\n2,S,1,5,0\n3,a,1,0,0\n4,a,2,1,0\r\n").size(), 1u);
}

TEST(HistoryCsv, FurtherColumnsAreLeftOutWhereTheFirstLineNamesThem) {
  const auto events = events_of("t_us,op,id,size,stream,kind,site\n1,a,7,1000,0,allocate,\"f, g\"\n2,-,,0,0,mark,x\n");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].bytes, 1000u);
}

TEST(HistoryCsv, AClockThatJumpsBackChangesNoOrder) {
  const auto events = events_of("9,a,1,1,0\n3,a,2,1,0\n10,f,1,1,0\n");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].time, 9000);
  EXPECT_EQ(events[2].time, 10000);
}

TEST(HistoryCsv, AnyOtherTextFailsWithItsLine) {
  for (const char* content : {"1,a,1,1\n", "x,a,1,1,0\n", "1,a,1,-1,0\n", "1,a,1,1,0,\n",
                              "\x7f"
                              "ELF",
                              "-1,a,1,1,0\n", "1,a,1,1,0\n2,x,1,1,0\n", "1,a,1,99999999999999999999,0\n",
                              "1,a,1,4611686018427387904,0\n2,a,2,4611686018427387904,0\n3,a,3,1,0\n"})
    EXPECT_EQ(failure_of(content), "E1811") << content;
  EXPECT_FALSE(open_recording("/nonexistent"));
  EXPECT_FALSE(open_recording("/tmp"));
}

}  // namespace
}  // namespace ration::trace
