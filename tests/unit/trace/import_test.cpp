// What other programs write, as recordings.
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "../temporary.hpp"
#include "../trace_export/random_events.hpp"
#include "events_of.hpp"
#include "trace/export/exporter.hpp"
#include "trace/import/plain_data.hpp"
#include "trace/inspection.hpp"
#include "trace/open_recording.hpp"

namespace ration::trace {
namespace {

using namespace std::string_literals;

class Opened : public testing::Test {
 protected:
  const TemporaryFolder folder_;

  std::unique_ptr<Recording> opened(const std::string& content, const char* name = "memory.pickle") {
    auto recording = open_recording(folder_.write(name, content));
    if (!recording) {
      EXPECT_EQ(recording.error().id, "E1811");
      failure_ = recording.error().what;
      return nullptr;
    }
    failure_.clear();
    return std::move(*recording);
  }
  std::string failure_;
};

/// Writes pickles as Python does, of texts, small numbers and containers.
std::string text(const std::string& text) { return "\x8c" + std::string(1, static_cast<char>(text.size())) + text; }
std::string number(std::uint32_t value) {
  std::string bytes = "J";
  for (int at = 0; at < 4; ++at) bytes += static_cast<char>(value >> 8 * at);
  return bytes;
}
std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string all = "}(";
  for (const auto& [key, value] : items) all += text(key) + value;
  return all + "u";
}
std::string list(const std::vector<std::string>& items) {
  std::string all = "](";
  for (const std::string& item : items) all += item;
  return all + "e";
}
std::string pickle(const std::string& value) { return "\x80\x04" + value + "."; }

std::string entry(const char* action, std::uint32_t address, std::uint32_t bytes, std::uint32_t time) {
  const std::string frame = dict({{"name", text("step")}, {"filename", text("train.py")}, {"line", number(7)}});
  return dict({{"action", text(action)},
               {"addr", number(address)},
               {"size", number(bytes)},
               {"stream", number(3)},
               {"time_us", number(time)},
               {"frames", list({frame})}});
}

std::string block(std::uint32_t address, std::uint32_t bytes, const char* state) {
  return dict({{"address", number(address)},
               {"size", number(bytes)},
               {"requested_size", number(bytes - 12)},
               {"state", text(state)},
               {"frames", list({})}});
}

class PytorchSnapshot : public Opened {};

TEST_F(PytorchSnapshot, HasTensorsInSegmentsAndWhatWasThereBefore) {
  const std::string segment =
      dict({{"device", number(0)},
            {"address", number(4096)},
            {"total_size", number(1 << 21)},
            {"blocks", list({block(4096, 512, "active_allocated"), block(4608, 1024, "inactive"),
                             block(5632, 2048, "active_allocated")})}});
  const std::string trace = list({entry("free_requested", 90000, 100, 50), entry("free_completed", 90000, 100, 50),
                                  entry("segment_free", 90000, 1 << 20, 51), entry("segment_alloc", 4096, 1 << 21, 60),
                                  entry("alloc", 5632, 2036, 61), entry("oom", 0, 1 << 30, 62)});
  const auto recording = opened(pickle(dict({{"segments", list({segment})}, {"device_traces", list({trace})}})));
  ASSERT_TRUE(recording) << failure_;
  EXPECT_EQ(recording->header().began, 50'000);
  EXPECT_TRUE(recording->header().deep);
  EXPECT_FALSE(recording->header().booked);
  const auto events = events_of(*recording);
  std::string told;
  for (const Event& event : events)
    told += fmt::format("{}:{}@{}+{}{:+} ", event.time / 1000, static_cast<int>(event.kind), event.address, event.bytes,
                        event.charged);
  EXPECT_EQ(told,
            "0:1@90000+100+0 0:1@4096+500+0 0:9@0+1048576+1048576 0:2@90000+100+0 1:10@0+1048576-1048576 "
            "10:9@0+2097152+2097152 11:1@5632+2036+0 12:17@0+1073741824+0 ");
  EXPECT_EQ(recording->header().sites.at(events.back().site), "step (train.py:7)");
  const Inspection found = inspect(*recording);
  ASSERT_EQ(found.held.size(), 1U);
  EXPECT_EQ(found.held[0].charged, 1 << 21);
  EXPECT_EQ(found.overview.denial_count, 1U);
}

TEST_F(PytorchSnapshot, ThatIsAListOfSegmentsIsThatMoment) {
  const auto recording = opened(pickle(list({dict({{"device", number(1)},
                                                   {"address", number(4096)},
                                                   {"total_size", number(8192)},
                                                   {"blocks", list({block(4096, 512, "active_allocated")})}})})));
  ASSERT_TRUE(recording) << failure_;
  EXPECT_EQ(recording->header().devices.size(), 2U);
  const auto events = events_of(*recording);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].bytes, 500U);
  EXPECT_EQ(events[1].charged, 8192);
  EXPECT_EQ(events[1].device, 1);
}

// A pickle may call anything; nothing of that kind is even looked up.
TEST_F(PytorchSnapshot, ThatIsMoreThanDataFails) {
  EXPECT_FALSE(
      opened("\x80\x04"
             "cos\nsystem\n" +
             text("touch /tmp/never") + "\x85R."));
  EXPECT_NE(failure_.find("it needs a class or a function of Python (at byte 3)"), std::string::npos) << failure_;
  EXPECT_FALSE(opened("\x80\x04" + text("os") + text("system") + "\x93."));
  EXPECT_FALSE(opened(pickle(text("no snapshot"))));
  EXPECT_NE(failure_.find("not a snapshot of PyTorch's memory"), std::string::npos) << failure_;
  EXPECT_FALSE(opened("\x80\x04."));
  EXPECT_FALSE(
      opened("\x80\x04"
             "u."));
  EXPECT_FALSE(
      opened("\x80\x04"
             "}(K\x01u."));
  EXPECT_FALSE(opened("\x80\x04h\x07."));
}

TEST_F(PytorchSnapshot, CutOffAnywhereFails) {
  const std::string whole =
      pickle(dict({{"segments", list({})},
                   {"device_traces", list({list({entry("alloc", 4096, 512, 1), entry("oom", 0, 5, 2)})})}}));
  ASSERT_TRUE(opened(whole));
  for (std::size_t size = 2; size < whole.size(); ++size) EXPECT_FALSE(opened(whole.substr(0, size))) << size;
}

// What this program exports for PyTorch's viewer it also reads: the same peak, the same blocks.
TEST_F(PytorchSnapshot, OfAnExportHasItsPeakAndItsBlocks) {
  const auto history = open_recording(RATION_SOURCE "/share/ration/traces/medium_128_training.csv");
  ASSERT_TRUE(history);
  std::ostringstream out;
  write_memory_viz(**history, out);
  const auto recording = opened(out.str());
  ASSERT_TRUE(recording) << failure_;
  const Inspection was = inspect(**history), is = inspect(*recording);
  EXPECT_EQ(is.held.at(0).charged, was.held.at(0).charged);
  ASSERT_EQ(is.overview.sizes.size(), was.overview.sizes.size());
  for (std::size_t at = 0; at < was.overview.sizes.size(); ++at) {
    EXPECT_EQ(is.overview.sizes[at].count, was.overview.sizes[at].count);
    EXPECT_EQ(is.overview.sizes[at].bytes, was.overview.sizes[at].bytes);
    EXPECT_EQ(is.overview.sizes[at].freed, was.overview.sizes[at].freed);
  }
}

TEST(PlainData, NumbersHaveTheirSign) {
  const auto number_in = [](const std::string& value) { return PlainData::parse(pickle(value))->root().number(); };
  EXPECT_EQ(number_in("J\xff\xff\xff\xff"s), -1);
  EXPECT_EQ(number_in("\x8a\x02\x00\xff"s), -256);
  EXPECT_EQ(number_in("\x8a\x06\x00\x00\x00\x00\xff\x7f"s), 0x7fff00000000);
  EXPECT_EQ(number_in("\x8a\x00"s), 0);
  EXPECT_EQ(number_in("M\x01\x02"s), 513);
  EXPECT_EQ(number_in("N"), std::nullopt);
  EXPECT_FALSE(PlainData::parse("no pickle"));
}

// Few bytes must not become much memory.
TEST(PlainData, ThatGrowsBeyondBoundsFails) {
  std::string growing = "](";
  for (int count = 0; count < 20'000'000; ++count) growing += 'N';
  const auto data = PlainData::parse(pickle(growing + "e"));
  ASSERT_FALSE(data);
  EXPECT_NE(data.error().find("too many values"), std::string::npos);
}

class TensorflowDump : public Opened {
 protected:
  static std::string field(int number, const std::string& content) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
  }
  static std::string chunk(std::uint8_t address, std::uint8_t bytes, std::uint8_t requested, bool in_use) {
    return field(3, {8, static_cast<char>(address), 16, static_cast<char>(bytes), 24, static_cast<char>(requested), 64,
                     static_cast<char>(in_use)});
  }
};

TEST_F(TensorflowDump, HasTheTensorsOfAMomentInRegions) {
  const auto recording = opened(field(1, "GPU_1_bfc") + chunk(1, 20, 17, true) + chunk(21, 30, 0, false) +
                                    chunk(51, 9, 9, true) + chunk(100, 7, 5, true),
                                "dump");
  ASSERT_TRUE(recording) << failure_;
  const Inspection found = inspect(*recording);
  ASSERT_EQ(found.held.size(), 1U);
  EXPECT_EQ(found.held[0].place.device, 1);
  EXPECT_EQ(found.held[0].charged, 20 + 30 + 9 + 7);
  EXPECT_EQ(found.held[0].requested, 17U + 9 + 5);
  EXPECT_EQ(found.overview.events, 2U + 3);
}

TEST_F(TensorflowDump, CutOffFails) {
  const std::string whole = field(1, "GPU_0_bfc") + chunk(1, 20, 17, true) + chunk(21, 30, 0, false);
  ASSERT_TRUE(opened(whole, "dump"));
  for (std::size_t size = 3; size < whole.size(); ++size)
    if (size != whole.size() - 10 && opened(whole.substr(0, size), "dump")) ADD_FAILURE() << size;
  EXPECT_FALSE(opened(whole + field(3, "\x08"), "dump"));
  EXPECT_FALSE(opened(whole + chunk(51, 5, 6, true), "dump")) << "more is asked for than it has";
  EXPECT_FALSE(opened("\nHello, world", "dump"));
}

class ExportedCsv : public Opened {};

TEST_F(ExportedCsv, HasEveryEventAgain) {
  const MemoryRecording recording = random_recording(5, 5'000);
  std::ostringstream out;
  write_csv(recording, out);
  const auto again = opened(out.str(), "run.csv");
  ASSERT_TRUE(again) << failure_;
  const auto before = events_of(recording), after = events_of(*again);
  ASSERT_EQ(after.size(), before.size());
  EXPECT_TRUE(again->header().booked);
  for (std::size_t at = 0; at < before.size(); ++at) {
    const Event &was = before[at], &is = after[at];
    ASSERT_EQ(is.time, was.time - was.time % 1000) << at;
    ASSERT_EQ(is.kind, was.kind) << at;
    ASSERT_EQ(is.address, was.address) << at;
    ASSERT_EQ(is.bytes, was.bytes) << at;
    ASSERT_EQ(is.charged, was.charged) << at;
    ASSERT_EQ(is.stream, was.stream) << at;
    ASSERT_EQ(is.thread, was.thread) << at;
    ASSERT_EQ(is.detail, was.detail) << at;
    ASSERT_EQ(is.device, was.device) << at;
    ASSERT_EQ(is.account, was.account) << at;
    ASSERT_EQ(again->header().processes.at(is.process).pid, recording.header().processes.at(was.process).pid) << at;
    ASSERT_EQ(again->header().sites.at(is.site).empty(), was.site == 0) << at;
  }
  EXPECT_EQ(inspect(*again).held.at(0).charged, inspect(recording).held.at(0).charged);
}

TEST_F(ExportedCsv, ThatIsDamagedFailsWithItsLine) {
  std::ostringstream out;
  write_csv(random_recording(6, 20), out);
  const std::string whole = out.str();
  std::mt19937 random(7);
  for (int attempt = 0; attempt < 300; ++attempt) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)opened(damaged, "run.csv");
  }
  EXPECT_FALSE(opened(whole + "1,a,1,1,0,allocate,0,device\n", "run.csv"));
  EXPECT_NE(failure_.find(":22 is not a line"), std::string::npos) << failure_;
}

// Any change of a byte gives a recording or an error, and nothing else.
TEST_F(PytorchSnapshot, DamagedAnywhereIsReadOrFails) {
  const std::string whole = pickle(
      dict({{"segments", list({dict({{"device", number(0)},
                                     {"total_size", number(8192)},
                                     {"blocks", list({block(4096, 512, "active_allocated")})}})})},
            {"device_traces", list({list({entry("alloc", 4096, 512, 1), entry("free_completed", 4096, 512, 2)})})}}));
  std::mt19937 random(8);
  int read = 0;
  for (int attempt = 0; attempt < 3'000; ++attempt) {
    std::string damaged = whole;
    for (int change = 0; change < 3; ++change)
      damaged[2 + random() % (damaged.size() - 2)] = static_cast<char>(random());
    if (const auto recording = opened(damaged)) {
      (void)inspect(*recording);
      ++read;
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace ration::trace
