#include "trace/packed_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "../temporary.hpp"
#include "trace/event_block.hpp"
#include "trace/memory_recording.hpp"

namespace ration::trace {
namespace {

Header some_header() {
  Header header;
  header.workload = "train";
  header.began = 1'700'000'000'000'000'000;
  header.complete = true;
  header.devices = {{"GPU-1", "T4", Bytes{16}, Bytes{8}}, {"GPU-2", "T4", Bytes{16}, {}}};
  header.processes = {{17, 1, "python train.py"}, {18, 17, "python worker.py"}};
  header.sites = {"", "train.py:88", "epoch 3"};
  return header;
}

/// Events as programs make them, and some with any number in every field.
std::vector<Event> some_events(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<Event> events, live;
  std::int64_t time = 0;
  while (events.size() < count) {
    Event event;
    time += static_cast<std::int64_t>(random() % 3'000) * 1000;
    event.time = time;
    event.process = static_cast<std::uint32_t>(random() % 2);
    event.device = static_cast<std::uint16_t>(random() % 2);
    event.thread = 1000 + static_cast<std::uint32_t>(random() % 3);
    if (!live.empty() && random() % 2 == 0) {
      const std::size_t at = random() % live.size();
      event = live[at];
      event.time = time;
      event.kind = Kind::kFree;
      event.charged = -event.charged;
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (random() % 50 == 0) {
      event.kind = static_cast<Kind>(1 + random() % 24);
      event.account = static_cast<Account>(random() % 3);
      event.address = random();
      event.bytes = random();
      event.charged = static_cast<std::int64_t>(random() >> 15);
      event.stream = random();
      event.site = static_cast<std::uint32_t>(random() % 3);
      event.detail = static_cast<std::uint32_t>(random());
    } else {
      event.address = 0x7f0000000000 + (random() % 1000 << 21);
      event.bytes = 1 + random() % (16 << 20);
      event.charged = static_cast<std::int64_t>(round_up(Bytes{event.bytes}, kGranule).count());
      live.push_back(event);
    }
    events.push_back(event);
  }
  return events;
}

std::string fields(const Event& event) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", event.time, event.address, event.bytes, event.charged,
                     event.stream, event.process, event.thread, event.site, event.detail, event.device,
                     static_cast<int>(event.kind), static_cast<int>(event.account));
}

std::vector<std::string> all_fields(const Recording& recording) {
  std::vector<std::string> all;
  recording.read([&](const Event& event) {
    all.push_back(fields(event));
    return true;
  });
  return all;
}

std::vector<std::string> all_fields(const std::vector<Event>& events) {
  std::vector<std::string> all;
  for (const Event& event : events) all.push_back(fields(event));
  return all;
}

TEST(EventBlock, KeepsEveryFieldOfEveryEvent) {
  const std::vector<Event> events = some_events(5'000, 1);
  std::vector<Event> read;
  ASSERT_TRUE(decode_events(encode_events(events, events.front().time), events.front().time, read));
  EXPECT_EQ(all_fields(read), all_fields(events));
}

class PackedFile : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/train.rec";
  const std::vector<Event> events_ = some_events(2 * kEventsOfBlock + 1'000, 2);
  void SetUp() override { ASSERT_TRUE(write_packed(path_, MemoryRecording(some_header(), events_))); }
};

TEST_F(PackedFile, KeepsHeaderAndEvents) {
  const auto opened = open_packed(path_);
  ASSERT_TRUE(opened) << opened.error().what;
  const Header& header = (*opened)->header();
  EXPECT_EQ(header.workload, "train");
  EXPECT_TRUE(header.complete);
  EXPECT_EQ(header.devices.at(0).limit, Bytes{8});
  EXPECT_FALSE(header.devices.at(1).limit);
  EXPECT_EQ(header.processes.at(1).command, "python worker.py");
  EXPECT_EQ(header.sites.at(1), "train.py:88");
  EXPECT_EQ(all_fields(**opened), all_fields(events_));
}

TEST_F(PackedFile, SummariesSayWhatEachBlockHolds) {
  const auto opened = open_packed(path_);
  ASSERT_TRUE(opened);
  ASSERT_EQ((*opened)->blocks().size(), 3U);
  std::int64_t held = 0, peak = 0;
  for (std::size_t at = 0; at < kEventsOfBlock; ++at) {
    if (events_[at].device != 1 || events_[at].account != Account::kDevice) continue;
    held += events_[at].charged;
    peak = std::max(peak, held);
  }
  for (const Summary::Row& row : (*opened)->blocks().front().rows) {
    if (row.device != 1 || row.account != Account::kDevice) continue;
    EXPECT_EQ(row.before, 0);
    EXPECT_EQ(row.after, held);
    EXPECT_EQ(row.peak, peak);
  }
  std::vector<std::string> rest;
  (*opened)->read_from(2, [&](const Event& event) {
    rest.push_back(fields(event));
    return true;
  });
  EXPECT_EQ(rest, all_fields({events_.begin() + 2 * kEventsOfBlock, events_.end()}));
}

// Wherever the file ends, what is whole before that place is read, and the recording says that it is not complete.
TEST_F(PackedFile, CutOffAnywhereIsReadUpToThere) {
  const auto size = std::filesystem::file_size(path_);
  std::mt19937_64 random(3);
  const std::vector<std::string> all = all_fields(events_);
  std::size_t most = 0;
  for (int attempt = 0; attempt < 40; ++attempt) {
    const std::string cut = folder_.path() + "/cut.rec";
    std::filesystem::copy_file(path_, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, random() % size);
    const auto opened = open_packed(cut);
    if (!opened) continue;
    EXPECT_FALSE((*opened)->header().complete);
    const std::vector<std::string> read = all_fields(**opened);
    EXPECT_TRUE(read.size() % kEventsOfBlock == 0 || read.size() == all.size());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), all.begin()));
    most = std::max(most, read.size());
  }
  EXPECT_GT(most, 0U);
}

// With an index, a missing block is known: what is left must not pass for the whole.
TEST_F(PackedFile, ADamagedBlockOfAWholeFileIsAnError) {
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path_) / 2);
  file.seekg(middle);
  const char old = static_cast<char>(file.get());
  file.seekp(middle);
  file.put(static_cast<char>(old ^ 1));
  file.close();
  const auto opened = open_packed(path_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().what.find("1 of its 3 blocks of events cannot be read"), std::string::npos)
      << opened.error().what;
}

TEST_F(PackedFile, ADamagedByteIsNoticed) {
  const auto size = std::filesystem::file_size(path_);
  std::mt19937_64 random(4);
  const std::vector<std::string> all = all_fields(events_);
  for (int attempt = 0; attempt < 40; ++attempt) {
    const std::string bad = folder_.path() + "/bad.rec";
    std::filesystem::copy_file(path_, bad, std::filesystem::copy_options::overwrite_existing);
    std::fstream file(bad, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(random() % size);
    file.seekg(at);
    const char old = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(old ^ (1 << random() % 8)));
    file.close();
    const auto opened = open_packed(bad);
    if (!opened) continue;
    const std::vector<std::string> read = all_fields(**opened);
    EXPECT_LE(read.size(), all.size());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), all.begin()));
  }
}

TEST_F(PackedFile, AnotherVersionIsRejected) {
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(7);
  file.put('9');
  file.close();
  EXPECT_EQ(open_packed(path_).error().id, "E1816");
}

TEST_F(PackedFile, AFullDiskLeavesTheOldFile) {
  const auto size = std::filesystem::file_size(path_);
  EXPECT_EQ(write_packed("/dev/full/x.rec", MemoryRecording(some_header(), events_)).error().id, "E1815");
  EXPECT_EQ(std::filesystem::file_size(path_), size);
}

TEST_F(PackedFile, TakesTwoAndAHalfBytesAnEvent) {
  std::vector<Event> events;
  for (int step = 0; step < 400; ++step) {
    for (int block = 0; block < 50; ++block) {
      Event event;
      event.time = (step * 100 + block) * 37'000;
      event.address = 0x7f0000000000 + (std::uint64_t(block) << 22);
      event.bytes = static_cast<std::uint64_t>(block + 1) * 40'000;
      event.charged = static_cast<std::int64_t>(round_up(Bytes{event.bytes}, kGranule).count());
      events.push_back(event);
    }
    for (int block = 0; block < 50; ++block) {
      Event event = events[static_cast<std::size_t>(step) * 100 + static_cast<std::size_t>(block)];
      event.time = (step * 100 + 50 + block) * 37'000;
      event.kind = Kind::kFree;
      event.charged = -event.charged;
      events.push_back(event);
    }
  }
  const auto packed = write_packed(path_, MemoryRecording(some_header(), events));
  ASSERT_TRUE(packed);
  EXPECT_LT(packed->bytes, events.size() * 5 / 2);
}

}  // namespace
}  // namespace ration::trace
