// Writes one line per event, for spreadsheets and scripts. The first five columns are those of the allocation histories
// in share/ration/traces. So `ration` and other programs that read such histories can read this file, too. They skip
// operations other than `a` and `f`.
#include <fmt/format.h>

#include <unordered_map>

#include "trace/export/exporter.hpp"
#include "trace/export/holdings.hpp"
#include "trace/export/names.hpp"
#include "trace/history_csv.hpp"

namespace ration::trace {
namespace {

char operation_of(Kind kind) {
  switch (kind) {
    case Kind::kAllocate:
    case Kind::kVirtualCreate:
      return 'a';
    case Kind::kFree:
    case Kind::kVirtualRelease:
      return 'f';
    default:
      return '-';
  }
}

std::string cell(const std::string& text) {
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char each : text) quoted += each == '"' ? "\"\"" : std::string(1, each);
  return quoted + '"';
}

}  // namespace

void write_csv(const Recording& recording, std::ostream& out) {
  const Header& header = recording.header();
  // The key to a block's number: its process, its address, and whether the address is a handle.
  struct Key {
    std::uint64_t address;
    std::uint32_t process;
    bool handle;
    bool operator==(const Key&) const = default;
  };
  const auto hash = [](const Key& key) {
    return std::hash<std::uint64_t>{}(key.address * 2 + key.handle) ^ std::size_t{key.process} << 48;
  };
  std::unordered_map<Key, std::uint64_t, decltype(hash)> blocks(16, hash);
  std::uint64_t next = 0;
  out << kExportedColumns << '\n';
  std::vector<std::int64_t> held(places(header));
  recording.read([&](const Event& event) {
    const char operation = operation_of(event.kind);
    const Key key{event.address, event.process,
                  event.kind == Kind::kVirtualCreate || event.kind == Kind::kVirtualRelease};
    std::string id;
    if (operation == 'a') {
      id = std::to_string(blocks[key] = next++);
    } else if (const auto found = blocks.find(key); operation == 'f' && found != blocks.end()) {
      id = std::to_string(found->second);
      blocks.erase(found);
    }
    const Place place = place_of(event, header);
    if (place < held.size()) held[place] += event.charged;
    out << fmt::format("{},{},{},{},{},{},{},{},0x{:x},{},{},{},{},{},{}\n", event.time / 1000, operation, id,
                       event.bytes, event.stream, name_of(event.kind), event.device,
                       kAccountNames[static_cast<std::size_t>(event.account)], event.address, event.charged,
                       place < held.size() ? held[place] : 0,
                       event.process < header.processes.size() ? header.processes[event.process].pid : 0, event.thread,
                       event.detail, cell(text_of(header, event.site)));
    return out.good();
  });
}

}  // namespace ration::trace
