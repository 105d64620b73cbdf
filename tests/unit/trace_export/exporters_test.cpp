// Every export of recordings that no program makes. What their readers find stands in tests/exports.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/utf8.hpp"
#include "random_events.hpp"
#include "trace/export/exporter.hpp"
#include "trace/view/html.hpp"

namespace ration::trace {
namespace {

std::string exported(const Exporter& exporter, const Recording& recording) {
  std::ostringstream out;
  exporter.write(recording, out);
  EXPECT_TRUE(out.good()) << exporter.name;
  return out.str();
}

TEST(Exporters, WriteWhateverWasRecordedAndTheSameEachTime) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const MemoryRecording recording = random_recording(seed, 1000);
    for (const Exporter& exporter : exporters()) {
      const std::string text = exported(exporter, recording);
      EXPECT_GT(text.size(), 100u) << exporter.name;
      EXPECT_EQ(text, exported(exporter, recording)) << exporter.name;
    }
  }
}

TEST(Exporters, NamesThatAreNoTextBecomeText) {
  const MemoryRecording recording = random_recording(1, 1000);
  for (const char* name : {"chrome", "csv", "heaptrack", "speedscope"}) {
    const Exporter* exporter = exporter_of(name);
    ASSERT_NE(exporter, nullptr) << name;
    EXPECT_TRUE(is_utf8(exported(*exporter, recording))) << name;
  }
}

TEST(Exporters, TakeARecordingWithoutEvents) {
  const MemoryRecording recording = random_recording(1, 0);
  for (const Exporter& exporter : exporters()) EXPECT_FALSE(exported(exporter, recording).empty()) << exporter.name;
}

// Long call stacks are most of a page: it then tells less, and stays short.
TEST(Exporters, APageIsNeverLongerThanItsBound) {
  const MemoryRecording random = random_recording(1, 0);
  Header header = random.header();
  std::vector<Event> events;
  for (std::uint32_t block = 1; block <= 4000; ++block) {
    header.sites.push_back(std::to_string(block) + std::string(3000, 'f'));
    Event event;
    event.time = block * 1000;
    event.address = block << 20;
    event.bytes = event.charged = block;
    event.site = static_cast<std::uint32_t>(header.sites.size() - 1);
    events.push_back(event);
  }
  const std::string page = exported(*exporter_of("html"), MemoryRecording(header, std::move(events)));
  EXPECT_LE(page.size(), kMostOfHtml);
  EXPECT_GT(page.size(), kMostOfHtml / 20);
  EXPECT_NE(page.find("\"bytes\":8002000"), std::string::npos);  // the peak
}

TEST(Exporters, HaveNamesOfTheirOwn) {
  std::set<std::string> names, endings;
  for (const Exporter& exporter : exporters()) {
    names.insert(exporter.name);
    endings.insert(exporter.ending);
    EXPECT_EQ(exporter_of(exporter.name), &exporter);
  }
  EXPECT_EQ(names.size(), exporters().size());
  EXPECT_EQ(endings.size(), exporters().size());
  EXPECT_EQ(exporter_of("none"), nullptr);
}

}  // namespace
}  // namespace ration::trace
