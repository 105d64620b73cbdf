#include "trace/history_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <unordered_map>

#include "base/strings.hpp"
#include "base/whole_file.hpp"
#include "trace/import/imported.hpp"
#include "trace/kinds.hpp"

namespace ration::trace {
namespace {

constexpr const char* kColumns = "t_us,op,id,size,stream";
constexpr char kTaken = 'a', kFreed = 'f';
constexpr std::string_view kSkipped = "S-";  // segments of the framework, and lines without memory
constexpr const char* kExample = "ration record -o train.rec -- PROGRAM   makes a recording";
/// The granularity of the addresses that blocks get. It aligns blocks as frameworks do, and keeps them from
/// overlapping.
constexpr Bytes kApart{512};
constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 40;

struct Line {
  std::int64_t time_us = 0;
  char operation = 0;
  std::string_view block;
  std::uint64_t size = 0, stream = 0;
};

/// Parses a line. With `extended`, the line may have further columns.
std::optional<Line> parsed(std::string_view text, bool extended) {
  const auto cells = split(trimmed(text), ',');
  if (cells.size() < 5 || (cells.size() > 5 && !extended) || cells[1].size() != 1) return std::nullopt;
  const auto time = parse_number<std::int64_t>(cells[0]);
  const auto size = parse_number<std::uint64_t>(cells[3]);
  const auto stream = parse_number<std::uint64_t>(cells[4]);
  if (!time || !size || !stream || *time < 0 || *time > std::int64_t{1} << 50 || *size > kUnlimited.count())
    return std::nullopt;
  return Line{*time, cells[1].front(), cells[2], *size, *stream};
}

/// Splits a line at its commas, except those inside quotes.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char each = line[at];
    if (each == '"' && quoted && at + 1 < line.size() && line[at + 1] == '"')
      cells.back() += line[++at];
    else if (each == '"')
      quoted = !quoted;
    else if (each == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += each;
  }
  return cells;
}

/// Makes events of the lines of an exported recording.
class ExportedLines {
 public:
  explicit ExportedLines(const std::string& path) : imported_(path) {
    Header& header = imported_.header();
    header.processes.clear();
    header.deep = true;
  }
  /// Returns false if the line is not one of an exported recording.
  bool take(std::string_view line) {
    const auto cells = cells_of(line);
    if (cells.size() != 15) return false;
    const auto time = parse_number<std::int64_t>(cells[0]);
    const auto bytes = parse_number<std::uint64_t>(cells[3]), stream = parse_number<std::uint64_t>(cells[4]);
    const auto kind = kind_named(cells[5]);
    const auto device = parse_number<std::uint16_t>(cells[6]);
    const auto account = std::find(kAccountNames.begin(), kAccountNames.end(), cells[7]);
    std::uint64_t address = 0;
    const char* const digits = cells[8].data() + std::min<std::size_t>(2, cells[8].size());
    const auto [end, error] = std::from_chars(digits, cells[8].data() + cells[8].size(), address, 16);
    const bool has_address = cells[8].starts_with("0x") && error == std::errc() && *end == 0;
    const auto charged = parse_number<std::int64_t>(cells[9]);
    const auto pid = parse_number<int>(cells[11]);
    const auto thread = parse_number<std::uint32_t>(cells[12]), detail = parse_number<std::uint32_t>(cells[13]);
    if (!time || *time < 0 || *time > kLatest / 1000 || !bytes || !stream || !kind || !device || *device >= 1024 ||
        account == kAccountNames.end() || !has_address || !charged || std::abs(*charged) > kMostCharge || !pid ||
        !thread || !detail)
      return false;
    imported_.need_device(*device);
    Event event{*time * 1000, address,          *bytes,  *charged,
                *stream,      process_of(*pid), *thread, imported_.site(cells[14]),
                *detail,      *device,          *kind,   static_cast<Account>(account - kAccountNames.begin())};
    // Only the recording of a run has this event, and such a recording has a book. An imported history that was
    // exported again has neither.
    if (event.kind == Kind::kProcessBegan) {
      imported_.header().booked = true;
      imported_.header().deep = false;
    }
    imported_.add(event);
    return true;
  }
  [[nodiscard]] std::unique_ptr<MemoryRecording> finish() { return imported_.finish(); }

 private:
  std::uint32_t process_of(int pid) {
    std::vector<Process>& processes = imported_.header().processes;
    const auto [found, is_new] = by_pid_.try_emplace(pid, static_cast<std::uint32_t>(processes.size()));
    if (is_new) processes.push_back({pid, 0, pid == 0 ? imported_.header().workload : ""});
    return found->second;
  }
  Imported imported_;
  std::map<int, std::uint32_t> by_pid_;
};

}  // namespace

Result<std::unique_ptr<MemoryRecording>> read_history_csv(const std::string& path) {
  const auto file = open_regular(path);
  if (!file) return fail("E1811", fmt::format("no recording at {}: {}.", path, file.error()), kExample, 2);
  std::ifstream stream(path_of(*file));
  std::unordered_map<std::string, std::pair<std::uint64_t, std::uint64_t>> live;  // address and size, by block
  std::uint64_t next = kFirstAddress;
  std::int64_t latest = 0;
  std::string text;
  bool extended = false;  // the first line names further columns
  std::optional<ExportedLines> exported;
  Imported imported(path);
  for (std::size_t number = 1; std::getline(stream, text); ++number) {
    if (number == 1 && trimmed(text).starts_with(kColumns)) {
      extended = trimmed(text) != kColumns;
      if (trimmed(text) == kExportedColumns) exported.emplace(path);
      continue;
    }
    if (exported) {
      if (exported->take(trimmed(text))) continue;
      return fail("E1811", fmt::format("{}:{} is not a line of an exported recording.", path, number), kExample, 2);
    }
    const auto line = parsed(text, extended);
    if (!line)
      return fail("E1811", fmt::format("{}:{} is not a line of a history, {}.", path, number, kColumns), kExample, 2);
    if (line->operation != kTaken && line->operation != kFreed && kSkipped.find(line->operation) == kSkipped.npos)
      return fail("E1811",
                  fmt::format("{}:{}: '{}' is not an operation of a history: {} allocates a block, {} frees it, and "
                              "each of {} is skipped.",
                              path, number, line->operation, kTaken, kFreed, kSkipped),
                  kExample, 2);
    Event event;
    event.time = latest = std::max(latest, line->time_us * 1000);
    event.stream = line->stream;
    if (line->operation == kTaken && line->size > 0) {
      if (next > kUnlimited.count())
        return fail("E1811", fmt::format("{}:{}: the blocks together exceed any GPU.", path, number), kExample, 2);
      event.address = next;
      event.bytes = line->size;
      event.charged = static_cast<std::int64_t>(line->size);
      live[std::string(line->block)] = {event.address, event.bytes};
      next += round_up(Bytes{line->size}, kApart).count();
    } else if (const auto block = live.find(std::string(line->block));
               line->operation == kFreed && block != live.end()) {
      event.kind = Kind::kFree;
      event.address = block->second.first;
      event.charged = -static_cast<std::int64_t>(block->second.second);
      live.erase(block);
    } else {
      continue;
    }
    imported.add(event);
  }
  return exported ? exported->finish() : imported.finish();
}

}  // namespace ration::trace
