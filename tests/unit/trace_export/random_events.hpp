// Random recordings for the tests of exports: several processes and devices, and every kind of event, also such that no
// program does: frees of what was never taken, blocks at a live address, charges that belong to nothing.
#pragma once

#include <random>
#include <vector>

#include "trace/memory_recording.hpp"

namespace ration::trace {

inline MemoryRecording random_recording(unsigned seed, int events) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint64_t most) { return static_cast<std::uint64_t>(random() % most); };
  Header header;
  header.workload = "random";
  header.devices = {{"GPU-a", "Tesla T4", Bytes{std::uint64_t{16} << 30}, Bytes{std::uint64_t{4} << 30}}, {}};
  header.processes = {{11, 1, "python train.py"}, {12, 11, ""}, {13, 11, "a \xff\n\"name\""}};
  header.sites = {"", "inner (a.py:7)\nouter (b.py:8)", "mark \xff", "forward"};
  std::vector<Event> all;
  std::int64_t time = 0;
  for (int i = 0; i < events; ++i) {
    Event event;
    event.time = time += static_cast<std::int64_t>(below(3) * 500);
    event.kind = static_cast<Kind>(1 + below(24));
    if (below(2) == 0) event.kind = below(5) < 3 ? Kind::kAllocate : Kind::kFree;
    event.address = 1 + below(30);
    event.bytes = below(4) == 0 ? 0 : below(1 << 20);
    event.process = static_cast<std::uint32_t>(below(3));
    event.thread = static_cast<std::uint32_t>(100 + below(2));
    event.site = static_cast<std::uint32_t>(below(4));
    event.device = static_cast<std::uint16_t>(below(2));
    event.account = static_cast<Account>(below(8) < 6 ? 0 : below(3));
    event.detail = static_cast<std::uint32_t>(below(100));
    if (below(3) > 0) event.charged = static_cast<std::int64_t>(below(2 << 20)) - (below(2) == 0 ? 1 << 20 : 0);
    all.push_back(event);
  }
  return {header, std::move(all)};
}

}  // namespace ration::trace
