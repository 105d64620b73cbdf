// What a recording of many events costs: packs one that is made up on the way, opens it and inspects it, and packs the
// part that its program would leave, with 32 bytes an event.
// Usage: ration-bench-recordings FOLDER [EVENTS]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "trace/inspection.hpp"
#include "trace/packed_file.hpp"
#include "trace/parts.hpp"
#include "trace/run_note.hpp"

namespace {

using namespace ration;
using namespace ration::trace;

/// Two processes that train on a GPU each: each takes weights, and every step tensors of a few hundred sizes, which it
/// returns in an order of its own. One of a hundred steps leaves a tensor behind. Every thousandth step has a mark.
class Training final : public Recording {
 public:
  explicit Training(std::uint64_t events) : events_(events) {
    header_.workload = "train";
    header_.began = 1'700'000'000'000'000'000;
    header_.complete = true;
    header_.devices = {{"GPU-1", "NVIDIA T4", Bytes{std::uint64_t{16} << 30}, {}},
                       {"GPU-2", "NVIDIA T4", Bytes{std::uint64_t{16} << 30}, {}}};
    header_.processes = {{17, 1, "python train.py"}, {18, 1, "python train.py"}};
    header_.sites = {""};
    for (std::uint64_t epoch = 0; epoch <= events / (1000 * kTensors); ++epoch)
      header_.sites.push_back("epoch " + std::to_string(epoch));
  }
  const Header& header() const override { return header_; }
  void read(const std::function<bool(const Event&)>& take) const override {
    Run run{take, events_};
    std::mt19937 random(1);
    std::vector<std::uint64_t> sizes(300);
    for (std::uint64_t& size : sizes) size = (1 + random() % 512) * 4096;
    std::vector<std::uint64_t> order(kTensors);
    for (std::uint64_t weight = 0; weight < kWeights; ++weight)
      for (std::uint32_t process = 0; process < 2; ++process)
        if (!run.give(run.block(process, Kind::kAllocate, (std::uint64_t{0x6f} << 40) + weight * 65'536, 65'536)))
          return;
    for (std::uint64_t step = 0;; ++step) {
      const auto process = static_cast<std::uint32_t>(step % 2);
      if (step % 1000 == 0) {
        Event mark = run.next(process);
        mark.kind = Kind::kMark;
        mark.site = static_cast<std::uint32_t>(1 + step / 1000);
        if (!run.give(mark)) return;
      }
      const std::uint64_t base = (std::uint64_t{0x7f} << 40) + (std::uint64_t{process} << 36);
      for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
        order[tensor] = tensor;
        if (!run.give(run.block(process, Kind::kAllocate, base + tensor * (4 << 20), sizes[tensor % sizes.size()])))
          return;
      }
      if (step % 100 == 0 &&
          !run.give(run.block(process, Kind::kAllocate, base + (std::uint64_t{1} << 34) + step * 8192, 8192)))
        return;
      for (std::size_t at = 0; at + 1 < order.size(); ++at)
        std::swap(order[at], order[at + random() % std::min<std::size_t>(8, order.size() - at)]);
      for (auto tensor = order.rbegin(); tensor != order.rend(); ++tensor)
        if (!run.give(run.block(process, Kind::kFree, base + *tensor * (4 << 20), sizes[*tensor % sizes.size()])))
          return;
    }
  }

 private:
  static constexpr std::uint64_t kTensors = 1000, kWeights = 20'000;
  struct Run {
    const std::function<bool(const Event&)>& take;
    std::uint64_t left;
    std::int64_t time = 0;
    std::uint32_t noise = 1;

    Event next(std::uint32_t process) {
      noise = noise * 1'664'525 + 1'013'904'223;
      Event event;
      event.time = time += 2'000 + (noise >> 24) * 100;
      event.process = event.device = static_cast<std::uint16_t>(process);
      event.thread = 17 + process;
      return event;
    }
    Event block(std::uint32_t process, Kind kind, std::uint64_t address, std::uint64_t bytes) {
      Event event = next(process);
      event.kind = kind;
      event.address = address;
      event.bytes = bytes;
      event.stream = 7;
      event.charged = kind == Kind::kFree ? -static_cast<std::int64_t>(bytes) : static_cast<std::int64_t>(bytes);
      return event;
    }
    bool give(const Event& event) { return left-- > 0 && take(event); }
  };
  const std::uint64_t events_;
  Header header_;
};

/// As `fill` and `copied` of a home: all copies count, and the home itself has nothing more.
constexpr std::uint64_t kEveryCopy = std::uint64_t{1} << 40;

/// Writes the part of a program that made these events.
void write_part(const std::string& path, const Recording& recording) {
  RunNote note;
  note.workload = recording.header().workload;
  note.devices = recording.header().devices;
  note.began = note.ended = {1, 1, 1};
  note.main_pid = 17;
  if (!make_parts(path, note)) std::abort();
  std::ofstream file(path + kPartsEnding + "/17-1" + guard::kPartEnding, std::ios::binary);
  std::vector<char> chunk(guard::kChunkSize);
  auto* header = reinterpret_cast<guard::PartHeader*>(chunk.data());
  std::memcpy(header->magic, guard::kPartMagic, sizeof header->magic);
  header->version = guard::kPartVersion;
  header->account_count = 2;
  header->pid = 17;
  header->counts_nanoseconds = 1;
  header->began = {1, 1, 1};
  for (std::uint8_t device = 0; device < 2; ++device) header->devices[device][15] = device;
  auto* const records = reinterpret_cast<guard::RawRecord*>(chunk.data());
  constexpr std::size_t kRecords = guard::kChunkSize / sizeof(guard::RawRecord);
  std::size_t used = kRecords;
  std::uint64_t chunks = 0;
  const auto put_chunk = [&] { file.write(chunk.data(), static_cast<std::streamsize>(chunk.size())); };
  // The first chunk is the home, which stays empty; the events are in its copies.
  const auto begin_chunk = [&](std::uint32_t thread, std::uint64_t time) {
    std::fill(chunk.begin(), chunk.end(), '\0');
    auto* beginning = reinterpret_cast<guard::ChunkHeader*>(chunk.data());
    beginning->magic = guard::kChunkMagic;
    beginning->thread = thread;
    beginning->began = {time, time, time};
    beginning->home = guard::kChunkSize;
    beginning->fill = chunks == 0 ? kEveryCopy : chunks - 1;
    beginning->copied = kEveryCopy;
    ++chunks;
    used = sizeof *beginning / sizeof(guard::RawRecord);
  };
  put_chunk();
  begin_chunk(1, 1);
  used = kRecords;
  recording.read([&](const Event& event) {
    if (used == kRecords) {
      put_chunk();
      begin_chunk(event.thread, static_cast<std::uint64_t>(event.time));
    }
    guard::RawRecord& record = records[used++];
    record.address = event.address;
    record.what =
        event.bytes << 16 | static_cast<std::uint64_t>(event.device) << 8 | static_cast<std::uint8_t>(event.kind);
    record.rest = static_cast<std::uint64_t>(event.charged / static_cast<std::int64_t>(guard::kPageOfCharge)) << 32;
    record.ticks = static_cast<std::uint64_t>(event.time);
    note.ended = {record.ticks, record.ticks, record.ticks};
    return true;
  });
  put_chunk();
  if (!file.flush() || !note_end(path, note)) std::abort();
}

/// Runs the work in a process of its own, and prints how long it took and how much memory it had.
template <typename Work>
void measured(const char* what, Work&& work) {
  std::fflush(stdout);
  const auto began = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    std::_Exit(0);
  }
  int status = 0;
  struct rusage usage {};
  ::wait4(child, &status, 0, &usage);
  const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("| %s | %.2f s | %.0f MiB |\n", what, taken, static_cast<double>(usage.ru_maxrss) / 1024);
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: ration-bench-recordings FOLDER [EVENTS]\n");
    return 2;
  }
  const std::string path = std::string(words[1]) + "/long.rec";
  const std::uint64_t events = count > 2 ? std::strtoull(words[2], nullptr, 10) : 100'000'000;
  std::printf("| of %llu events | time | memory |\n| --- | --- | --- |\n", static_cast<unsigned long long>(events));
  measured("made up", [&] { Training(events).read([](const Event&) { return true; }); });
  measured("packed", [&] {
    if (!write_packed(path, Training(events))) std::abort();
  });
  std::printf("| bytes an event | %.2f | |\n",
              static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(events));
  measured("opened", [&] {
    if (!open_packed(path)) std::abort();
  });
  measured("inspected", [&] { (void)inspect(**open_packed(path)); });
  measured("its part written", [&] { write_part(path, Training(events)); });
  measured("its part packed", [&] {
    if (!write_packed(path, **open_parts(path))) std::abort();
  });
  remove_parts(path);
  std::filesystem::remove(path);
  return 0;
}
