#include "trace/inspection.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "../temporary.hpp"
#include "../trace_export/random_events.hpp"
#include "trace/event_block.hpp"
#include "trace/packed_file.hpp"

namespace ration::trace {
namespace {

/// A random recording whose file has snapshots, with times and texts as the file keeps them.
MemoryRecording long_recording(unsigned seed) {
  const MemoryRecording random = random_recording(seed, 6 * kEventsOfBlock);
  Header header = random.header();
  header.complete = true;
  header.processes.back().command = "third";
  header.sites[2] = "mark";
  std::vector<Event> events = random.events();
  for (Event& event : events) {
    event.time -= event.time % 1000;
  }
  // One process ends never, and keeps blocks from between many marks.
  header.processes.push_back({14, 1, "keeper"});
  for (std::uint64_t block = 0; block < 300; ++block) {
    Event& event = events[block * 997];
    event = {event.time, 10'000 + block, (1 + block % 3) << 20, 0, 0, 3, 100, 1};
  }
  return {std::move(header), std::move(events)};
}

std::string text_of(const Group& group) {
  return fmt::format("{}/{}/{}x{} {}-{} {}\n", group.process, group.site, group.bytes, group.count, group.first,
                     group.last, group.marks);
}

std::string text_of(const Inspection& found) {
  std::string text = text_of(found.overview) + "\n";
  for (const Held& held : found.held) {
    text += fmt::format("{}{} {} {} {} {} '{}'\n", held.place.is_host, held.place.device, held.time, held.charged,
                        held.at_end, held.requested, held.mark);
    for (const Share& part : held.parts)
      text += fmt::format("{} {} {}\n", name_of(part.use), part.process, part.charged);
    for (const Group& group : held.largest) text += text_of(group);
    text += fmt::format("{}\n", fmt::join(held.timeline, " "));
  }
  return text;
}

class InspectionTest : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/long.rec";
  const MemoryRecording recording_ = long_recording(1);
  void SetUp() override { ASSERT_TRUE(write_packed(path_, recording_)); }
};

// The packed file answers from its overview and from one snapshot, a recording in memory from all its events.
TEST_F(InspectionTest, OfAPackedFileIsThatOfItsEvents) {
  const auto packed = open_packed(path_);
  ASSERT_TRUE(packed) << packed.error().what;
  ASSERT_NE((*packed)->overview(), nullptr);
  const Inspection found = inspect(recording_);
  EXPECT_EQ(found.held.size(), 3U);
  EXPECT_EQ(text_of(inspect(**packed)), text_of(found));
  std::mt19937_64 random(1);
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(found.overview.length));
    EXPECT_EQ(text_of(inspect(**packed, at)), text_of(inspect(recording_, at))) << at;
  }
  for (const std::int64_t at : {std::int64_t{0}, found.overview.length, found.overview.length + 1})
    EXPECT_EQ(text_of(inspect(**packed, at)), text_of(inspect(recording_, at))) << at;
}

TEST_F(InspectionTest, ReadsFewEventsForAMomentOfAPackedFile) {
  const auto packed = open_packed(path_);
  ASSERT_TRUE(packed);
  const std::int64_t near_end = recording_.events()[5 * kEventsOfBlock].time;
  std::uint64_t restored = 0, read = 0;
  (*packed)->read_near(
      near_end, [&](const Event&) { ++restored; },
      [&](const Event& event) {
        ++read;
        return event.time <= near_end;
      });
  EXPECT_GT(restored, 0U);
  EXPECT_LE(read, 2 * kEventsOfBlock);
}

TEST_F(InspectionTest, AFileCutOffIsInspectedUpToThere) {
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) * 9 / 10);
  const auto packed = open_packed(path_);
  ASSERT_TRUE(packed);
  EXPECT_EQ((*packed)->overview(), nullptr);
  std::vector<Event> events;
  (*packed)->read([&](const Event& event) {
    events.push_back(event);
    return true;
  });
  ASSERT_GT(events.size(), 4 * kEventsOfBlock);
  const std::int64_t at = events[events.size() - 10].time;
  const MemoryRecording part(recording_.header(), events);
  EXPECT_EQ(text_of(inspect(**packed)), text_of(inspect(part)));
  EXPECT_EQ(text_of(inspect(**packed, at)), text_of(inspect(part, at)));
}

// The peak of each column is that of the events in it, whatever the length of a recording.
TEST(TimelineTest, KeepsTheMostOfEachSpan) {
  std::mt19937_64 random(1);
  for (const std::int64_t step : {1, 1000, 1'000'000'000}) {
    Timeline timeline;
    std::vector<std::pair<std::int64_t, std::int64_t>> all{{0, 0}};
    for (int count = 0; count < 5000; ++count) {
      const std::int64_t time = all.back().first + static_cast<std::int64_t>(random() % 100) * step;
      const auto held = static_cast<std::int64_t>(random() % 1000);
      timeline.add(time, all.back().second, held);
      all.emplace_back(time, held);
    }
    EXPECT_LE(timeline.most.size(), Timeline::kMostSpans);
    EXPECT_GE(timeline.most.size() * static_cast<std::size_t>(timeline.span),
              static_cast<std::size_t>(all.back().first));
    std::vector<std::int64_t> within(timeline.most.size(), 0), begun(timeline.most.size(), 0);
    for (std::size_t at = 0; at < all.size(); ++at) {
      const auto span = static_cast<std::size_t>(all[at].first / timeline.span);
      const std::int64_t until = at + 1 < all.size() ? all[at + 1].first / timeline.span : -1;
      within[span] = std::max(within[span], all[at].second);
      for (std::size_t later = span + 1; static_cast<std::int64_t>(later) <= until; ++later)
        begun[later] = all[at].second;
    }
    for (std::size_t span = 0; span < within.size(); ++span) {
      EXPECT_GE(timeline.most[span], within[span]) << step;
      EXPECT_LE(timeline.most[span], std::max(within[span], begun[span])) << step;
    }
  }
}

TEST(OverviewTest, IsReadAsItWasWrittenAndNothingElse) {
  const MemoryRecording recording = random_recording(3, 20'000);
  OverviewBuilder builder(recording.header());
  recording.read([&](const Event& event) {
    builder.add(event);
    return true;
  });
  const std::string text = text_of(builder.finish());
  const auto read = parse_overview(text, recording.header());
  ASSERT_TRUE(read);
  EXPECT_EQ(text_of(*read), text);
  Header smaller = recording.header();
  smaller.devices.resize(1);
  EXPECT_FALSE(parse_overview(text, smaller));
  smaller = recording.header();
  smaller.processes.resize(1);
  EXPECT_FALSE(parse_overview(text, smaller));
  smaller = recording.header();
  smaller.sites.resize(1);
  EXPECT_FALSE(parse_overview(text, smaller));
  std::string later = text;
  later.replace(later.find("overview/1"), 10, "overview/2");
  EXPECT_FALSE(parse_overview(later, recording.header()));
  EXPECT_FALSE(parse_overview(text.substr(0, text.size() / 2), recording.header()));
  nlohmann::json hostile = nlohmann::json::parse(text);
  hostile["places"][0][4] = 0;  // nanoseconds of a span
  EXPECT_FALSE(parse_overview(hostile.dump(), recording.header()));
  hostile = nlohmann::json::parse(text);
  while (hostile["places"].size() < 4) hostile["places"].push_back(hostile["places"][0]);
  EXPECT_FALSE(parse_overview(hostile.dump(), recording.header()));
}

}  // namespace
}  // namespace ration::trace
