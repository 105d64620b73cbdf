// A recording: the columns of a block, a part with any bytes of it changed, a packed file with any bytes of it changed
// or cut off, any overview, and what other programs write. Each is read to its end and inspected, packed ones as a page
// shows them.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "guard/recorder/record_layout.hpp"
#include "trace/event_block.hpp"
#include "trace/import/importers.hpp"
#include "trace/inspection.hpp"
#include "trace/memory_recording.hpp"
#include "trace/packed_file.hpp"
#include "trace/parts.hpp"
#include "trace/run_note.hpp"
#include "trace/view/view.hpp"

namespace {

using namespace ration;
using namespace ration::trace;

std::string folder() {
  static const std::string path = [] {
    char name[] = "/dev/shm/ration-fuzz-XXXXXX";
    return std::string(::mkdtemp(name));
  }();
  return path;
}

/// Changes a file: five bytes a change, where and what. A first byte of 255 cuts it there.
void change(const std::string& path, const std::uint8_t* data, std::size_t size) {
  const int file = ::open(path.c_str(), O_RDWR);
  for (; size >= 5; data += 5, size -= 5) {
    const std::size_t where = (data[0] & 1U) << 16 | data[1] | data[2] << 8;
    if (data[0] == 255)
      (void)!::ftruncate(file, static_cast<off_t>(where));
    else
      (void)!::pwrite(file, data + 3, 2, static_cast<off_t>(where));
  }
  ::close(file);
}

std::vector<Event> some_events() {
  std::vector<Event> events;
  for (std::uint64_t number = 0; number < 40; ++number) {
    Event event;
    event.time = static_cast<std::int64_t>(number) * 5'000;
    event.address = 0x7f0000000000 + (number % 7 << 21);
    event.bytes = 1000 * number;
    event.charged = number % 2 == 0 ? 2 << 20 : -(2 << 20);
    event.kind = number % 2 == 0 ? Kind::kAllocate : Kind::kFree;
    events.push_back(event);
  }
  return events;
}

/// A part with one chunk, from which the changes begin.
void write_part(const std::string& path) {
  static const std::string bytes = [] {
    std::string all(2 * guard::kChunkSize, '\0');
    auto* header = reinterpret_cast<guard::PartHeader*>(all.data());
    std::memcpy(header->magic, guard::kPartMagic, sizeof header->magic);
    header->version = guard::kPartVersion;
    header->account_count = 2;
    header->pid = 17;
    header->began = {1000, 1000, 1000};
    header->texts = 1;
    std::strcpy(header->command, "python train.py");
    auto* chunk = reinterpret_cast<guard::ChunkHeader*>(all.data() + guard::kChunkSize);
    chunk->magic = guard::kChunkMagic;
    chunk->thread = 17;
    chunk->began = {1000, 1000, 1000};
    chunk->home = guard::kChunkSize;
    auto* record = reinterpret_cast<guard::RawRecord*>(chunk + 1);
    for (std::uint64_t number = 0; number < 30; ++number, ++record) {
      record->address = 0x7f0000000000 + (number % 7 << 21);
      record->what = number * 1000 << 16 | 1 + number % 24;
      record->rest = (number % 2 == 0 ? 512ULL : 0xfffffe00ULL) << 32;
      record->ticks = 2000 + number;
    }
    return all;
  }();
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A recording that keeps an overview of anything.
class Summed final : public Recording {
 public:
  Summed(const Header& header, Overview overview) : events_(header, some_events()), overview_(std::move(overview)) {}
  const Header& header() const override { return events_.header(); }
  void read(const std::function<bool(const Event&)>& take) const override { events_.read(take); }
  const Overview* overview() const override { return &overview_; }

 private:
  const MemoryRecording events_;
  const Overview overview_;
};

/// Reads all that a page shows of a recording.
void show(const Recording& recording) {
  (void)view_of(recording, {0, kLatest, 7, 5});
  (void)view_of(recording, {9'000, 60'000, 4096, 500});
  (void)moment_view(recording, std::nullopt);
  (void)moment_view(recording, 70'000);
  (void)usage_view(recording, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t mode = data[0] % 5;
  ++data, --size;
  const std::string path = folder() + "/one.rec";
  if (mode == 0) {
    std::vector<Event> events;
    if (decode_events({reinterpret_cast<const char*>(data), size}, 0, events)) {
      std::vector<Event> again;
      if (!decode_events(encode_events(events, 0), 0, again) || again.size() != events.size()) std::abort();
    }
    return 0;
  }
  if (mode == 1) {
    const std::string parts = path + kPartsEnding;
    std::filesystem::create_directories(parts);
    write_part(parts + "/17-1.part");
    change(parts + "/17-1.part", data, size);
    if (const auto opened = open_parts(path)) (void)inspect(**opened);
    std::filesystem::remove_all(parts);
    return 0;
  }
  Header header;
  header.devices = {{"GPU-1", "T4", Bytes{16}, Bytes{8}}};
  header.processes = {{17, 1, "python train.py"}};
  header.sites = {""};
  header.complete = true;
  if (mode == 3) {
    if (auto overview = parse_overview({reinterpret_cast<const char*>(data), size}, header))
      show(Summed(header, std::move(*overview)));
    return 0;
  }
  if (mode == 4) {
    const std::string content(reinterpret_cast<const char*>(data), size);
    const Importer* importer = importer_of(content);
    if (importer == nullptr) return 0;
    if (const auto read = importer->read("any", content)) (void)inspect(**read);
    return 0;
  }
  if (!write_packed(path, MemoryRecording(header, some_events()))) std::abort();
  change(path, data, size);
  if (const auto opened = open_packed(path)) show(**opened);
  return 0;
}
