// How fast what-if answers: the charges of a recording, ration's pool at work, and the smallest limits of a million
// events under four allocators. Usage: ration-bench-whatif [TRACE.csv]
#include <time.h>

#include <cstdio>
#include <cstdlib>

#include "trace/memory_recording.hpp"
#include "trace/open_recording.hpp"
#include "trace/whatif/allocators.hpp"
#include "trace/whatif/charges.hpp"
#include "trace/whatif/replay.hpp"

namespace {

using namespace ration;
constexpr std::size_t kEvents = 1'000'000;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// Returns the processor's time, not the clock's: all of this is one thread's work, and other programs may have the
/// processors meanwhile.
template <typename Work>
double seconds(Work&& work) {
  const double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

/// The trace again and again, each time with everything freed at its end, until there are so many events.
trace::MemoryRecording repeated(const trace::Recording& recording, std::size_t count) {
  std::vector<trace::Event> once;
  std::vector<std::pair<std::uint64_t, std::int64_t>> live;
  recording.read([&](const trace::Event& event) {
    once.push_back(event);
    if (event.kind == trace::Kind::kAllocate)
      live.emplace_back(event.address, event.charged);
    else
      std::erase_if(live, [&](const auto& block) { return block.first == event.address; });
    return true;
  });
  for (const auto& [address, charged] : live) {
    trace::Event event = once.back();
    event.kind = trace::Kind::kFree;
    event.address = address;
    event.charged = -charged;
    once.push_back(event);
  }
  std::vector<trace::Event> events;
  const std::int64_t length = once.back().time + 1;
  for (std::int64_t round = 0; events.size() < count; ++round) {
    for (trace::Event event : once) {
      event.time += round * length;
      events.push_back(event);
    }
  }
  return {recording.header(), std::move(events)};
}

void line(const char* what, double value, const char* unit, double bound, bool at_least) {
  const bool good = at_least ? value >= bound : value <= bound;
  std::printf("| %s | %.1f %s | %s %.0f %s | %s |\n", what, value, unit, at_least ? "≥" : "≤", bound, unit,
              good ? "ok" : "MISSED");
}

}  // namespace

int main(int count, char** words) {
  const auto read = trace::open_recording(count > 1 ? words[1] : "share/ration/traces/medium_512_training.csv");
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().what.c_str());
    return 1;
  }
  const trace::MemoryRecording recording = repeated(**read, kEvents);
  const double events = static_cast<double>(recording.events().size());
  std::printf("| figure | measured | must be | |\n| --- | --- | --- | --- |\n");
  const double raw = seconds([&] { (void)trace::add_up(recording, Bytes{0}); });
  line("charges added up, million events/s", events / raw / 1e6, "", 20, true);
  std::optional<trace::Steps> steps;
  const double collecting = seconds([&] { steps = *trace::steps_of(recording, 0); });
  const auto pool = trace::find_allocator("ration");
  const double once = seconds([&] { (void)trace::replay(*steps, pool->make, kUnlimited); });
  line("ration's pool, million pairs/s", static_cast<double>(steps->allocations) / once / 1e6, "", 10, true);
  double all = collecting;
  for (const std::string& name : trace::allocator_names()) {
    const auto allocator = trace::find_allocator(name);
    const double taken = seconds([&] { (void)trace::smallest_limit(*steps, allocator->make); });
    std::printf("| smallest limit of %.1f million events, %s | %.2f s | | |\n", events / 1e6, name.c_str(), taken);
    all += taken;
  }
  line("a million events, four allocators, bisected", all, "s", 10, false);
  return 0;
}
