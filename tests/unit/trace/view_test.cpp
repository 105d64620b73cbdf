// What a page shows of a recording, against the events themselves.
#include "trace/view/view.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "../temporary.hpp"
#include "../trace_export/random_events.hpp"
#include "trace/event_block.hpp"
#include "trace/inspection_json.hpp"
#include "trace/packed_file.hpp"
#include "trace/view/bounded_recording.hpp"
#include "trace/view/moment.hpp"

namespace ration::trace {
namespace {

constexpr Place kFirst{false, 0};

/// A random recording with times as the file keeps them, of which the file has snapshots.
MemoryRecording long_recording() {
  const MemoryRecording random = random_recording(7, 6 * kEventsOfBlock);
  Header header = random.header();
  header.complete = true;
  header.processes.back().command = "third";
  header.sites[2] = "mark";
  std::vector<Event> events = random.events();
  for (Event& event : events) event.time -= event.time % 1000;
  // One process keeps blocks, some of them physical memory, until the end.
  header.processes.push_back({14, 1, "keeper"});
  for (std::uint64_t block = 0; block < 300; ++block) {
    Event& event = events[block * 997];
    event = {event.time, 10'000'000 * (block + 1), (1 + block % 3) << 20, 0, 0, 3, 100, 1};
    if (block % 5 == 0) event.kind = Kind::kVirtualCreate;
  }
  return {std::move(header), std::move(events)};
}

/// Returns the most that the place held in [from, to), from the events.
std::int64_t most_between(const MemoryRecording& recording, Place place, std::int64_t from, std::int64_t to) {
  std::int64_t held = 0, most = INT64_MIN, before = 0;
  for (const Event& event : recording.events()) {
    if (event.time >= to) break;
    if (place_of(event) == place) held += event.charged;
    if (event.time < from) before = held;
    if (event.time >= from) most = std::max(most, held);
  }
  return std::max(most, before);
}

class ViewTest : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/long.rec";
  const MemoryRecording recording_ = long_recording();
  std::unique_ptr<PackedRecording> packed_;
  void SetUp() override {
    ASSERT_TRUE(write_packed(path_, recording_));
    auto packed = open_packed(path_);
    ASSERT_TRUE(packed);
    packed_ = std::move(*packed);
    ASSERT_NE(packed_->overview(), nullptr);
  }
};

TEST_F(ViewTest, AColumnHasTheMostOfItsEvents) {
  const std::int64_t length = packed_->overview()->length;
  std::mt19937_64 random(1);
  for (int attempt = 0; attempt < 6; ++attempt) {
    const auto from = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(length - 1'000'000));
    const Window window = window_of(*packed_, *packed_->overview(), {from, from + 500'000, 16, 500});
    ASSERT_TRUE(window.events);  // spans of the overview are too wide for this
    EXPECT_GT(*window.events, 500U);
    EXPECT_TRUE(window.listed.empty());
    ASSERT_EQ(window.lines.size(), 3U);
    for (const Line& line : window.lines) {
      ASSERT_EQ(line.most.size(), 16U);
      for (std::size_t at = 0; at < line.most.size(); ++at) {
        const std::int64_t begin = window.from + static_cast<std::int64_t>(at) * window.step;
        const std::int64_t end = at + 1 == line.most.size() ? window.to + 1 : begin + window.step;
        EXPECT_EQ(line.most[at], most_between(recording_, line.place, begin, end)) << attempt << " " << at;
      }
    }
  }
}

TEST_F(ViewTest, AWideRangeIsAnsweredFromTheOverviewAndLosesNoPeak) {
  const Overview& overview = *packed_->overview();
  const Window window = window_of(*packed_, overview, {0, kLatest, 300, 500});
  EXPECT_FALSE(window.events);
  for (std::size_t place = 0; place < window.lines.size(); ++place) {
    const Line& line = window.lines[place];
    EXPECT_LE(line.most.size(), 300U);
    EXPECT_EQ(*std::max_element(line.most.begin(), line.most.end()), overview.totals[place].peak);
    for (std::size_t at = 0; at < line.most.size(); at += 37) {
      const std::int64_t begin = window.from + static_cast<std::int64_t>(at) * window.step;
      EXPECT_GE(line.most[at], most_between(recording_, line.place, begin + 1, begin + window.step));
    }
  }
}

TEST_F(ViewTest, AShortRangeListsItsEvents) {
  const std::int64_t from = recording_.events()[5 * kEventsOfBlock].time, to = from + 60'000;
  const Window window = window_of(*packed_, *packed_->overview(), {from, to, 100, 500});
  std::size_t expected = 0;
  for (const Event& event : recording_.events()) expected += event.time >= from && event.time <= to ? 1 : 0;
  ASSERT_GT(expected, 10U);
  ASSERT_EQ(window.listed.size(), expected);
  EXPECT_EQ(*window.events, expected);
  const auto& [event, held] = window.listed.back();
  EXPECT_EQ(
      held, most_between(recording_, place_of(event), event.time, event.time) /* before it */ + [&] {
        std::int64_t sum = 0;
        for (const auto& each : window.listed)
          if (each.event.time == event.time && place_of(each.event) == place_of(event)) sum += each.event.charged;
        return sum;
      }());
}

TEST_F(ViewTest, AnyRangeIsAnswered) {
  const Overview& overview = *packed_->overview();
  for (const auto& [from, to] :
       std::initializer_list<std::pair<std::int64_t, std::int64_t>>{{0, 0},
                                                                    {-5, -3},
                                                                    {kLatest, kLatest},
                                                                    {100, 50},
                                                                    {overview.length, overview.length + 9},
                                                                    {INT64_MIN, INT64_MAX}})
    for (const std::size_t columns : {0, 1, 3, 100'000}) {
      const Window window = window_of(*packed_, overview, {from, to, columns, 10});
      EXPECT_GT(window.step, 0);
      for (const Line& line : window.lines) EXPECT_FALSE(line.most.empty());
    }
  EXPECT_NO_THROW((void)view_of(MemoryRecording({}, {}), {}));
  EXPECT_NO_THROW((void)usage_view(MemoryRecording({}, {}), {}));
  EXPECT_NO_THROW((void)moment_view(MemoryRecording({}, {}), 5));
}

TEST_F(ViewTest, DocumentsOfAFileAreThoseOfItsEvents) {
  nlohmann::json expected = to_json(inspect(recording_), recording_.header());
  nlohmann::json shown = view_of(*packed_, {});
  EXPECT_EQ(shown["mark_count"], expected["marks"].size());
  EXPECT_EQ(shown["inspection"]["marks"].size(), 1000U);
  expected["marks"] = shown["inspection"]["marks"];
  EXPECT_TRUE(shown["inspection"] == expected);
  EXPECT_TRUE(moment_view(*packed_, std::nullopt) == moment_view(recording_, std::nullopt));
  const std::int64_t length = packed_->overview()->length;
  EXPECT_TRUE(moment_view(*packed_, length / 2) == moment_view(recording_, length / 2));
  EXPECT_EQ(usage_view(*packed_, {length / 3, length, 0, 0}), usage_view(recording_, {length / 3, length, 0, 0}));
  const std::vector<std::int64_t> times{0, length / 4, length / 2, length / 2 + 1000, length, length + 7};
  const nlohmann::json moments = moment_views(*packed_, times, {});
  ASSERT_EQ(moments.size(), times.size());
  for (std::size_t at = 0; at < times.size(); ++at) {
    const nlohmann::json moment = moment_view(recording_, times[at]);
    for (const nlohmann::json& place : moment["places"])
      EXPECT_NE(std::find(moments[at]["places"].begin(), moments[at]["places"].end(), place),
                moments[at]["places"].end())
          << times[at];
  }
}

TEST_F(ViewTest, TheMapAndTheGroupsHaveEveryByte) {
  Live live(recording_.header());
  for (const Event& event : recording_.events())
    if (event.kind != Kind::kProcessEnded) live.follow(event);
  std::uint64_t requested = 0, handles = 0, blocks = 0;
  live.each_process([&](std::uint32_t, const auto& all) {
    for (const auto& [address, block] : all) {
      if (block.place != kFirst) continue;
      requested += block.bytes;
      handles += block.is_handle ? block.bytes : 0;
      blocks += block.is_handle ? 0 : 1;
    }
  });
  for (const std::size_t most : {1U, 4U, 1000U}) {
    const AddressMap map = map_of(live, kFirst, UINT64_MAX - 1, most);
    EXPECT_EQ(map.unaddressed, handles);
    EXPECT_LE(map.runs.size(), 2 * most + 4);  // of four processes
    std::uint64_t bytes = 0, count = 0;
    for (const auto& run : map.runs) {
      bytes += run.bytes;
      count += run.count;
    }
    EXPECT_EQ(bytes + handles, requested);
    EXPECT_EQ(count, blocks);
    std::uint64_t left_out = 0, grouped = 0;
    for (const Group& group : groups_of(live, kFirst, most, left_out)) grouped += group.total();
    EXPECT_EQ(grouped + left_out, requested);
  }
  EXPECT_GT(blocks, 10U);
  EXPECT_GT(handles, 0U);
}

Event taken(std::uint64_t address, std::uint64_t bytes, std::uint32_t process = 0) {
  Event event;
  event.address = address;
  event.bytes = bytes;
  event.process = process;
  return event;
}

TEST(MapTest, HolesLieBetweenBlocksOfOneProcess) {
  Header header;
  header.processes.resize(2);
  header.devices.resize(1);
  Live live(header);
  // 100..150, a hole of 50, 200..300 with a block inside, an unused range of 7,700, 8000..8001; another process at 10.
  for (const Event& event : {taken(200, 100), taken(100, 50), taken(8000, 1), taken(220, 10), taken(10, 1, 1)})
    live.follow(event);
  const AddressMap map = map_of(live, kFirst, 7000, 100);
  EXPECT_EQ(map.holes.bytes, 50U);
  EXPECT_EQ(map.holes.largest, 50U);
  EXPECT_EQ(map.holes.count, 1U);
  ASSERT_EQ(map.runs.size(), 5U);
  EXPECT_EQ(map_of(live, kFirst, 7700, 100).holes.bytes, 7750U);
  // The largest gaps part the runs.
  const AddressMap coarse = map_of(live, kFirst, 7000, 3);
  EXPECT_EQ(coarse.holes.bytes, 50U);
  EXPECT_EQ(coarse.runs.size(), 4U);
  EXPECT_EQ(coarse.runs.front().span, 200U);
  EXPECT_EQ(coarse.runs.front().bytes, 150U);
}

TEST(BoundedRecordingTest, EndsAfterSoManyEvents) {
  const MemoryRecording recording = random_recording(1, 1000);
  const auto count = [](const Recording& of) {
    std::size_t events = 0;
    of.read([&](const Event&) { return ++events > 0; });
    return events;
  };
  const BoundedRecording enough(recording, 1000), twice(recording, 1500);
  EXPECT_EQ(count(enough), 1000U);
  EXPECT_FALSE(enough.is_exceeded());
  EXPECT_EQ(count(twice), 1000U);
  EXPECT_FALSE(twice.is_exceeded());
  EXPECT_EQ(count(twice), 500U);
  EXPECT_TRUE(twice.is_exceeded());
}

}  // namespace
}  // namespace ration::trace
