// Writes a trace of Perfetto (protos/perfetto/trace): a track for each place, with counters below it for the bytes
// held, the limit and the parts; and a track for each thread that has ranges, marks or denials.
#include <map>

#include "trace/export/exporter.hpp"
#include "trace/export/moments.hpp"
#include "trace/export/names.hpp"
#include "trace/export/part_sums.hpp"
#include "trace/export/protobuf.hpp"
#include "trace/export/range_threads.hpp"

namespace ration::trace {
namespace {

enum EventType { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4 };
constexpr int kSizeBytes = 3;
constexpr std::uint64_t kSequence = 1;

/// Numbers of tracks; each place has kPerPlace of them.
constexpr std::uint64_t kPerPlace = 16, kHeld = 1, kLimit = 2, kPart = 3, kProcesses = std::uint64_t{1} << 20,
                        kThreads = std::uint64_t{1} << 32;

class PerfettoWriter {
 public:
  PerfettoWriter(const Recording& recording, std::ostream& out)
      : header_(recording.header()), out_(out), holdings_(header_), parts_(header_), sums_(header_) {
    for (Place place = 0; place < places(header_); ++place) {
      describe(Message{}.number(1, track_of(place)).text(2, name_of_place(header_, place)));
      describe_counter(place, kHeld, "held");
      describe_counter(place, kLimit, "limit");
      for (std::size_t part = 0; part < kParts; ++part)
        describe_counter(place, kPart + part, name_of(static_cast<Part>(part)));
    }
    for (std::uint32_t process = 0; process < header_.processes.size(); ++process) {
      Message known;
      known.number(1, header_.processes[process].pid).text(6, name_of_process(header_, process));
      describe(Message{}.number(1, kProcesses + process).message(3, known));
    }
    for (Place place = 0; place < places(header_); ++place)
      if (sums_.limit(place)) count(0, place, kLimit, *sums_.limit(place));
    recording.read([&](const Event& event) {
      take(event);
      return out_.good();
    });
  }

 private:
  static std::uint64_t track_of(Place place) { return (std::uint64_t{place} + 1) * kPerPlace; }

  void take(const Event& event) {
    const auto& changes = holdings_.apply(event);
    for (const Change& change : changes) parts_.apply(change);
    if (const auto place = sums_.apply(event)) {
      if (event.kind == Kind::kLimitChanged && sums_.limit(*place))
        count(event.time, *place, kLimit, *sums_.limit(*place));
      if (event.charged != 0) count(event.time, *place, kHeld, sums_.held(*place));
    }
    for (const Change& change : changes) {
      const auto part = static_cast<std::size_t>(change.holding.part);
      count(event.time, change.holding.place, kPart + part, parts_.of(change.holding.place, change.holding.part));
    }
    if (is_instant(event.kind))
      put(event, event.thread, Message{}.number(9, kInstant).text(23, text_of(header_, event)));
    else if (event.kind == Kind::kRangeBegan || event.kind == Kind::kRangeEnded)
      put_range(event);
  }

  void put_range(const Event& event) {
    const auto thread = ranges_.thread_of(event);
    if (!thread) return;
    if (event.kind == Kind::kRangeBegan)
      put(event, *thread, Message{}.number(9, kSliceBegin).text(23, text_of(header_, event.site)));
    else
      put(event, *thread, Message{}.number(9, kSliceEnd));
  }

  /// Writes an event of a thread. Before the first event of a thread, describes the thread's track.
  void put(const Event& event, std::uint32_t on_thread, const Message& of_event) {
    const auto [found, is_new] = threads_.try_emplace({event.process, on_thread}, kThreads + threads_.size());
    if (is_new) {
      Message thread;
      const int pid = event.process < header_.processes.size() ? header_.processes[event.process].pid : 0;
      thread.number(1, pid).number(2, on_thread).text(5, "thread");
      describe(Message{}.number(1, found->second).number(5, kProcesses + event.process).message(4, thread));
    }
    Message placed = of_event;
    placed.number(11, found->second);
    packet(Message{}.number(8, event.time).message(11, placed));
  }

  void count(std::int64_t time, Place place, std::uint64_t counter, std::uint64_t bytes) {
    packet(Message{}.number(8, time).message(
        11, Message{}.number(9, kCounter).number(11, track_of(place) + counter).number(30, bytes)));
  }

  void describe_counter(Place place, std::uint64_t counter, const char* name) {
    describe(Message{}
                 .number(1, track_of(place) + counter)
                 .text(2, name)
                 .number(5, track_of(place))
                 .message(8, Message{}.number(3, kSizeBytes)));
  }

  void describe(const Message& track) { packet(Message{}.message(60, track)); }

  void packet(Message packet) {
    packet.number(10, kSequence);
    if (is_first_) packet.number(13, 1);  // tells the reader that the sequence's state begins here
    is_first_ = false;
    out_ << Message{}.message(1, packet).bytes();
  }

  const Header& header_;
  std::ostream& out_;
  Holdings holdings_;
  PartSums parts_;
  Sums sums_;
  RangeThreads ranges_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> threads_;  // tracks by process and thread
  bool is_first_ = true;
};

}  // namespace

void write_perfetto(const Recording& recording, std::ostream& out) { PerfettoWriter(recording, out); }

}  // namespace ration::trace
