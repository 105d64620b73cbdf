// Every export of recordings that no program makes. What their readers find stands in tests/exports.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/utf8.hpp"
#include "random_events.hpp"
#include "trace/export/exporter.hpp"

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
