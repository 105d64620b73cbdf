#include "sim/workload/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <random>
#include <unordered_map>

#include "base/strings.hpp"
#include "base/whole_file.hpp"

namespace ration::workload {
namespace {

std::filesystem::path find_trace(const std::string& file) {
  std::error_code error;
  if (std::filesystem::exists(file, error)) return file;
  const auto here = std::filesystem::canonical("/proc/self/exe", error).parent_path().parent_path();
  return here / "share" / "ration" / "traces" / (file + ".csv");
}

void measure(Trace& trace) {
  std::vector<std::uint64_t> sizes(trace.blocks);
  std::uint64_t live = 0;
  for (const Event& event : trace.events) {
    if (event.allocate)
      sizes[event.id] = event.size, live += event.size;
    else
      live -= sizes[event.id];
    trace.peak_live = std::max(trace.peak_live, live);
  }
}

template <typename Number>
bool read_number(std::string_view text, Number& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc{} && result.ptr == text.data() + text.size();
}

}  // namespace

Result<Trace> read_trace(const std::string& file) {
  const auto path = find_trace(file);
  const auto file_of = open_regular(path);
  if (!file_of)
    return fail("E1901", fmt::format("no trace at {}: {}.", path.string(), file_of.error()),
                "ration-workload replay medium_512_inference", 2);
  std::ifstream stream(path_of(*file_of));
  Trace trace;
  trace.name = path.stem();
  std::unordered_map<std::string, std::uint32_t> live;
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (number == 1 && line.rfind("t_us,", 0) == 0) continue;
    const auto cells = split(line, ',');
    Event event;
    if (cells.size() < 4 || cells[1].size() != 1 || !read_number(cells[3], event.size)) {
      return fail("E1901", fmt::format("{}:{} is not `t_us,op,id,size,stream`.", path.string(), number),
                  "ration help enforcement", 2);
    }
    if (cells[1] == "a" && event.size > 0) {
      event.allocate = true;
      event.id = live[std::string(cells[2])] = trace.blocks++;
    } else if (const auto block = live.find(std::string(cells[2])); cells[1] == "f" && block != live.end()) {
      event.id = block->second;
      live.erase(block);
    } else {
      continue;
    }
    trace.events.push_back(event);
  }
  measure(trace);
  return trace;
}

Trace training_job(std::uint64_t steady, std::uint64_t peak, int steps, unsigned seed) {
  Trace trace;
  trace.name = "training job";
  std::minstd_rand random(seed);
  const auto take = [&](std::uint64_t size) {
    trace.events.push_back({true, trace.blocks, size});
    return trace.blocks++;
  };
  const auto some = [&](std::uint64_t left) {
    const auto size = std::uint64_t{1} << (16 + random() % 11);
    return std::min(left, size + random() % size / 256 * 256);
  };
  const std::uint64_t passing = peak > steady ? peak - steady : 0;
  std::uint64_t kept = 0;
  for (int step = 0; step <= steps; ++step) {
    std::vector<std::uint32_t> activations;
    std::uint64_t live = 0;
    // The workspace is one piece, and activations follow. In the first step, the parameters and the optimiser's state
    // are made between activations. Frameworks do the same, because they make them when they are first needed.
    if (passing > 0) {
      const std::uint64_t workspace = passing / 4 + passing / 8 * (random() % 3) / 2;
      activations.push_back(take(workspace));
      live += workspace;
    }
    while (live < passing || kept < steady) {
      if (kept < steady) {
        const std::uint64_t size = some(steady - kept);
        take(size);
        kept += size;
      }
      if (live < passing) {
        const std::uint64_t size = some(passing - live);
        activations.push_back(take(size));
        live += size;
      }
    }
    std::shuffle(activations.begin(), activations.end(), random);
    for (const std::uint32_t id : activations) trace.events.push_back({false, id, 0});
  }
  measure(trace);
  return trace;
}

}  // namespace ration::workload
