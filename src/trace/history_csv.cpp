#include "trace/history_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unordered_map>

#include "base/strings.hpp"
#include "base/whole_file.hpp"

namespace ration::trace {
namespace {

constexpr const char* kColumns = "t_us,op,id,size,stream";
constexpr const char* kExample = "share/ration/traces/medium_512_inference.csv   is one";
/// No frame of the driver is that small: addresses of blocks stay apart, and aligned as those of frameworks.
constexpr Bytes kApart{512};
constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 40;

struct Line {
  std::int64_t time_us = 0;
  std::string_view operation, block;
  std::uint64_t size = 0, stream = 0;
};

/// Parses a line that may have further columns if `extended`.
std::optional<Line> parsed(std::string_view text, bool extended) {
  const auto cells = split(trimmed(text), ',');
  if (cells.size() < 5 || (cells.size() > 5 && !extended) || cells[1].size() != 1) return std::nullopt;
  const auto time = parse_number<std::int64_t>(cells[0]);
  const auto size = parse_number<std::uint64_t>(cells[3]);
  const auto stream = parse_number<std::uint64_t>(cells[4]);
  if (!time || !size || !stream || *time < 0 || *time > std::int64_t{1} << 50 || *size > kUnlimited.count())
    return std::nullopt;
  return Line{*time, cells[1], cells[2], *size, *stream};
}

Header header_of(const std::filesystem::path& path) {
  Header header;
  header.workload = path.stem();
  header.deep = true;
  header.booked = false;
  header.complete = true;
  header.devices.push_back({});
  header.processes.push_back({0, 0, path.stem()});
  header.sites.emplace_back();
  return header;
}

}  // namespace

Result<std::unique_ptr<MemoryRecording>> read_history_csv(const std::string& path) {
  const auto file = open_regular(path);
  if (!file) return fail("E1811", fmt::format("no recording at {}: {}.", path, file.error()), kExample, 2);
  std::ifstream stream(path_of(*file));
  std::vector<Event> events;
  std::unordered_map<std::string, std::pair<std::uint64_t, std::uint64_t>> live;  // address and size, by block
  std::uint64_t next = kFirstAddress;
  std::int64_t latest = 0;
  std::string text;
  bool extended = false;  // the first line names further columns
  for (std::size_t number = 1; std::getline(stream, text); ++number) {
    if (number == 1 && trimmed(text).starts_with(kColumns)) {
      extended = trimmed(text) != kColumns;
      continue;
    }
    const auto line = parsed(text, extended);
    if (!line)
      return fail("E1811", fmt::format("{}:{} is not a line of a history, {}.", path, number, kColumns), kExample, 2);
    Event event;
    event.time = latest = std::max(latest, line->time_us * 1000);
    event.stream = line->stream;
    if (line->operation == "a" && line->size > 0) {
      if (next > kUnlimited.count())
        return fail("E1811", fmt::format("{}:{}: the blocks together exceed any GPU.", path, number), kExample, 2);
      event.address = next;
      event.bytes = line->size;
      event.charged = static_cast<std::int64_t>(line->size);
      live[std::string(line->block)] = {event.address, event.bytes};
      next += round_up(Bytes{line->size}, kApart).count();
    } else if (const auto block = live.find(std::string(line->block)); line->operation == "f" && block != live.end()) {
      event.kind = Kind::kFree;
      event.address = block->second.first;
      event.charged = -static_cast<std::int64_t>(block->second.second);
      live.erase(block);
    } else {
      continue;
    }
    events.push_back(event);
  }
  return std::make_unique<MemoryRecording>(header_of(path), std::move(events));
}

}  // namespace ration::trace
