#include "trace/difference.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/memory_recording.hpp"

namespace ration::trace {
namespace {

/// A run that takes so many blocks of 1 MiB at one place, and one of 10 MiB, and frees these.
MemoryRecording run_of(std::uint64_t kept, int pid) {
  Header header;
  header.devices.resize(1);
  header.processes = {{pid, 1, "python"}};
  header.sites = {"", "keep (train.py:8)\nmain (train.py:20)"};
  std::vector<Event> events;
  const auto add = [&](Kind kind, std::uint64_t address, std::int64_t charged, std::uint32_t site) {
    Event event;
    event.time = static_cast<std::int64_t>(events.size()) * 1000;
    event.kind = kind;
    event.address = address;
    event.bytes = static_cast<std::uint64_t>(std::abs(charged));
    event.charged = charged;
    event.site = site;
    events.push_back(event);
  };
  for (std::uint64_t block = 1; block <= kept; ++block) add(Kind::kAllocate, block, 1 << 20, 1);
  add(Kind::kAllocate, 1000, 10 << 20, 0);
  add(Kind::kFree, 1000, -(10 << 20), 0);
  if (kept > 2) add(Kind::kDenied, 0, 0, 0);
  return {header, std::move(events)};
}

std::string told(const MemoryRecording& before, const MemoryRecording& after) {
  std::string text;
  for (const Difference& change : difference({inspect(before), before.header()}, {inspect(after), after.header()}))
    text += fmt::format("{}:{}:{}x{} {}/{} {}/{}\n", static_cast<int>(change.what), change.place ? 1 : 0, change.name,
                        change.bytes, change.before.count, change.before.bytes >> 20, change.after.count,
                        change.after.bytes >> 20);
  return text;
}

TEST(Difference, NamesWhatOneRunHasMoreOf) {
  EXPECT_EQ(told(run_of(2, 17), run_of(5, 18)),
            "0:0:x0 4/0 8/0\n"
            "1:0:x0 0/0 1/0\n"
            "2:1:x0 0/12 0/15\n"
            "3:1:blocksx0 0/12 0/15\n"
            "4:1:keep (train.py:8)x1048576 2/2 5/5\n"
            "5:0:keep (train.py:8)x1048576 2/2 5/5\n");
}

TEST(Difference, OfAlikeRunsIsNoneButTheirSizes) {
  EXPECT_EQ(told(run_of(2, 17), run_of(2, 40)), "0:0:x0 4/0 4/0\n1:0:x0 0/0 0/0\n2:1:x0 0/12 0/12\n");
}

}  // namespace
}  // namespace ration::trace
