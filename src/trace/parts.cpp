#include "trace/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <queue>

#include "base/utf8.hpp"
#include "trace/part_file.hpp"
#include "trace/run_note.hpp"
#include "trace/symbols.hpp"

namespace ration::trace {
namespace {

using guard::Anchor;
using guard::PartHeader;
using guard::RawRecord;

constexpr std::int64_t kSecond = 1'000'000'000;
/// The time by which a chunk is opened before its first event. The event of a release is written when the call ends,
/// but has the time at which the call began. So it may have to come before events that were written earlier.
constexpr std::int64_t kEarly = kSecond / 10;

/// A converter of clock ticks to nanoseconds. It interpolates between the anchors of all processes of a recording,
/// which share one clock.
class Clock {
 public:
  void add(const Anchor& anchor) {
    if (anchor.ticks != 0) anchors_.push_back(anchor);
  }
  /// Drops anchors that are too close to another anchor. The two clocks of an anchor are not read at the same instant,
  /// so the rate between close anchors would be wrong.
  void settle() {
    std::sort(anchors_.begin(), anchors_.end(), [](const Anchor& a, const Anchor& b) { return a.ticks < b.ticks; });
    std::vector<Anchor> kept;
    for (const Anchor& anchor : anchors_) {
      if (kept.empty() || is_later(anchor, kept.back(), kSecond)) kept.push_back(anchor);
    }
    if (kept.size() == 1 && is_later(anchors_.back(), kept.front(), 1)) kept.push_back(anchors_.back());
    anchors_ = std::move(kept);
  }
  [[nodiscard]] std::int64_t monotonic_ns(std::uint64_t ticks) const {
    if (anchors_.empty()) return bounded(static_cast<double>(ticks));
    if (anchors_.size() == 1) return from_anchor(anchors_[0], ticks, 1);
    auto after = std::upper_bound(anchors_.begin() + 1, anchors_.end() - 1, ticks,
                                  [](std::uint64_t wanted, const Anchor& anchor) { return wanted < anchor.ticks; });
    const Anchor &from = *(after - 1), &to = *after;
    const double rate =
        static_cast<double>(to.monotonic_ns - from.monotonic_ns) / static_cast<double>(to.ticks - from.ticks);
    return from_anchor(from, ticks, rate);
  }
  [[nodiscard]] const Anchor* first() const { return anchors_.empty() ? nullptr : &anchors_.front(); }

 private:
  /// Returns true if `anchor` is later than `earlier` by both clocks, and at least `least_ns` later. Only then do the
  /// two give a rate.
  static bool is_later(const Anchor& anchor, const Anchor& earlier, std::uint64_t least_ns) {
    return anchor.ticks > earlier.ticks && anchor.monotonic_ns > earlier.monotonic_ns &&
           anchor.monotonic_ns - earlier.monotonic_ns >= least_ns;
  }
  /// Bounds a number from a damaged file to 10^18 ns, about 32 years.
  static std::int64_t bounded(double nanoseconds) {
    constexpr double kMost = 1e18;
    return static_cast<std::int64_t>(std::clamp(nanoseconds, -kMost, kMost));
  }
  static std::int64_t bounded(const Anchor& anchor) {
    return static_cast<std::int64_t>(std::min<std::uint64_t>(anchor.monotonic_ns, std::uint64_t{1} << 60));
  }
  static std::int64_t from_anchor(const Anchor& anchor, std::uint64_t ticks, double rate) {
    const double since = static_cast<double>(static_cast<std::int64_t>(ticks - anchor.ticks)) * rate;
    return bounded(anchor) + bounded(since);
  }

  std::vector<Anchor> anchors_;
};

std::string uuid_text(const std::uint8_t (&bytes)[16]) {
  std::string text = "GPU-";
  for (int at = 0; at < 16; ++at) {
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += fmt::format("{:02x}", bytes[at]);
  }
  return text;
}

/// Returns the UUID without its prefix, because MIG instances have another prefix.
std::string_view bare(std::string_view uuid) {
  const std::size_t dash = uuid.find('-');
  return dash == std::string_view::npos ? uuid : uuid.substr(dash + 1);
}

/// Returns `NAME (FILE:LINE)` of a Python function. The text `function` has its name and its file, separated by a
/// newline.
std::string python_call(std::string_view function, std::uint64_t line) {
  const std::size_t newline = function.find('\n');
  if (newline == std::string_view::npos) return "unknown function";
  const std::string_view name = function.substr(0, newline), file = function.substr(newline + 1);
  return line == 0 ? fmt::format("{} ({})", name, file) : fmt::format("{} ({}:{})", name, file, line);
}

/// Returns the calls of a stack, one per line.
std::string text_of(std::string_view frames, const std::vector<std::string>& modules, Symbols& symbols) {
  std::string text;
  for (guard::StackFrame frame{}; frames.size() >= sizeof frame; frames.remove_prefix(sizeof frame)) {
    std::memcpy(&frame, frames.data(), sizeof frame);
    if (!text.empty()) text += '\n';
    const std::string module = frame.module < modules.size() ? modules[frame.module] : "";
    text += valid_utf8(frame.language == guard::kFrameOfPython ? python_call(module, frame.offset)
                                                               : symbols.describe(module, frame.offset));
  }
  return text;
}

class Parts final : public Recording {
 public:
  static Result<std::unique_ptr<Recording>> open(const std::string& path);

  const Header& header() const override { return header_; }
  void read(const std::function<bool(const Event&)>& take) const override;

 private:
  struct Run {
    const PartFile* part;
    Chunk chunk;
    std::int64_t from;  ///< time of its first event
  };
  class Lives;
  class OpenRuns;

  void add_part(const std::filesystem::path& file);
  void make_header(const RunNote& note);
  void find_ends(const RunNote& note);
  void find_texts(PartFile& part, Symbols& symbols);
  [[nodiscard]] std::uint16_t device_of(const std::uint8_t (&uuid)[16]);
  [[nodiscard]] std::int64_t time_of(std::uint64_t ticks) const {
    return std::max<std::int64_t>(0, clock_.monotonic_ns(ticks) - began_);
  }
  void load(const Run& run, std::vector<Event>& out) const;

  Header header_;
  Clock clock_;
  std::int64_t began_ = 0;  ///< nanoseconds of CLOCK_MONOTONIC_RAW
  std::vector<PartFile> parts_;
  std::vector<Run> runs_;  ///< by the time of their first event
  std::vector<std::int64_t> process_began_, process_ended_;
  std::uint32_t common_process_ = 0;
  std::map<std::string, std::uint32_t> known_sites_;  ///< index in Header::sites
};

void Parts::add_part(const std::filesystem::path& file) {
  PartFile part = open_part(file.string());
  if (part.mapping.get() == nullptr) return;
  const PartHeader& header = part.header();
  if (file.filename() == guard::kLostFile) header_.lost += header.lost.load();
  if (std::memcmp(header.magic, guard::kPartMagic, sizeof header.magic) != 0 || header.version != guard::kPartVersion ||
      header.account_count > guard::kPartAccounts)
    return;
  header_.lost += header.lost.load();
  clock_.add(header.began);
  clock_.add(header.ended);
  each_chunk(part, [&](const Chunk& chunk) { clock_.add(chunk.header->began); });
  parts_.push_back(std::move(part));
}

std::uint16_t Parts::device_of(const std::uint8_t (&uuid)[16]) {
  const std::string text = uuid_text(uuid);
  for (std::size_t at = 0; at < header_.devices.size(); ++at)
    if (bare(header_.devices[at].uuid) == bare(text)) return static_cast<std::uint16_t>(at);
  header_.devices.push_back({text, "", Bytes{0}, {}});
  return static_cast<std::uint16_t>(header_.devices.size() - 1);
}

void Parts::find_texts(PartFile& part, Symbols& symbols) {
  if (part.header().texts.load() == 0) return;
  std::map<std::uint64_t, std::string_view> stacks;
  std::vector<std::string> modules;
  const auto enter = [&](std::uint64_t number, std::string text) {
    if (part.sites.size() <= number) part.sites.resize(number + 1);
    const auto [known, is_new] =
        known_sites_.try_emplace(std::move(text), static_cast<std::uint32_t>(header_.sites.size()));
    if (is_new) header_.sites.push_back(known->first);
    part.sites[number] = known->second;
  };
  each_chunk(part, [&](const Chunk& chunk) {
    each_record(
        chunk, [](const RawRecord&, const RawRecord*) {},
        [&](const RawRecord& record, std::string_view text) {
          const std::uint64_t number = record.address;
          if (number > part.header().texts.load() || number >= guard::kMaxTexts) return;
          switch (static_cast<guard::TextKind>(record.rest)) {
            case guard::TextKind::kName:
              return enter(number, valid_utf8(text));
            case guard::TextKind::kStack:
              stacks.emplace(number, text);
              return;
            case guard::TextKind::kModule:
            case guard::TextKind::kPythonFunction:
              if (modules.size() <= number) modules.resize(number + 1);
              modules[number] = valid_utf8(text);
          }
        });
  });
  for (const auto& [number, frames] : stacks) enter(number, text_of(frames, modules, symbols));
}

void Parts::make_header(const RunNote& note) {
  header_.workload = note.workload;
  header_.command = note.command;
  header_.folder = note.folder;
  header_.exit_code = note.exit_code;
  header_.deep = note.deep;
  header_.devices = note.devices;
  header_.sites.emplace_back();
  std::sort(parts_.begin(), parts_.end(), [](const PartFile& a, const PartFile& b) {
    return std::tuple(a.header().is_of_nvml, a.header().began.ticks) <
           std::tuple(b.header().is_of_nvml, b.header().began.ticks);
  });
  bool has_common = false;
  Symbols symbols;
  for (PartFile& part : parts_) {
    const PartHeader& header = part.header();
    has_common = has_common || header.has_common.load() != 0;
    header_.lacks_ranges = header_.lacks_ranges || header.has_other_nvtx != 0;
    for (std::uint32_t account = 0; account < header.account_count; ++account)
      part.devices[account] = device_of(header.devices[account]);
    find_texts(part, symbols);
    // The guard in front of NVML writes a part of its own, even if the process has another part already.
    const auto same = std::find_if(parts_.begin(), parts_.end(), [&](const PartFile& other) {
      return header.is_of_nvml != 0 && other.header().is_of_nvml == 0 && other.header().pid == header.pid;
    });
    if (same != parts_.end()) {
      part.process = same->process;
      continue;
    }
    part.process = static_cast<std::uint32_t>(header_.processes.size());
    const std::size_t length = ::strnlen(header.command, sizeof header.command);
    header_.processes.push_back({header.pid, header.parent, valid_utf8(std::string_view(header.command, length))});
    process_began_.push_back(time_of(header.began.ticks));
  }
  common_process_ = static_cast<std::uint32_t>(header_.processes.size());
  if (has_common) header_.processes.push_back({0, 0, "memory of several processes"});
  process_ended_.assign(header_.processes.size(), -1);
}

/// Finds when each process ended: at the time that the process itself wrote, or when exec replaced its program,
/// whichever is earlier. If neither is known, the main program ended when `ration run` noted its end, which may be
/// late. read() ends all other processes: when another process found them dead (end_found_dead), or at the end of the
/// run.
void Parts::find_ends(const RunNote& note) {
  for (PartFile& part : parts_) {
    const PartHeader& header = part.header();
    if (header.is_of_nvml != 0) continue;
    part.ended = header.ended.ticks;
    for (const PartFile& other : parts_) {
      if (other.header().is_of_nvml == 0 && other.header().pid == header.pid &&
          other.header().began.ticks > header.began.ticks)
        part.ended = part.ended == 0 ? other.header().began.ticks : std::min(part.ended, other.header().began.ticks);
    }
    if (part.ended == 0 && header.pid == note.main_pid) part.ended = note.ended.ticks;
    if (part.ended != 0) process_ended_[part.process] = time_of(part.ended);
  }
}

Result<std::unique_ptr<Recording>> Parts::open(const std::string& path) {
  const std::string folder = path + kPartsEnding;
  auto parts = std::make_unique<Parts>();
  std::error_code error;
  const RunNote note = read_note(folder);
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    parts->add_part(each->path());
  if (error || (parts->parts_.empty() && note.began.ticks == 0))
    return fail("E1811", fmt::format("{} has no parts of a recording.", folder),
                "ration record -o train.rec -- PROGRAM");
  parts->clock_.add(note.began);
  parts->clock_.add(note.ended);
  parts->clock_.settle();
  const Anchor* began = note.began.ticks != 0 ? &note.began : parts->clock_.first();
  if (began != nullptr) {
    parts->began_ = parts->clock_.monotonic_ns(began->ticks);
    parts->header_.began = static_cast<std::int64_t>(began->unix_ns);
  }
  parts->make_header(note);
  parts->find_ends(note);
  parts->header_.complete = note.ended.ticks != 0 && parts->header_.lost == 0;
  for (const PartFile& part : parts->parts_) {
    each_chunk(part, [&](const Chunk& chunk) {
      const std::uint64_t ticks = chunk.begin() < chunk.end() ? chunk.begin()->ticks.load() : 0;
      if (ticks != 0)
        parts->runs_.push_back({&part, chunk, parts->time_of(std::min(ticks, chunk.header->began.ticks))});
    });
  }
  std::sort(parts->runs_.begin(), parts->runs_.end(), [](const Run& a, const Run& b) { return a.from < b.from; });
  return std::unique_ptr<Recording>(std::move(parts));
}

void Parts::load(const Run& run, std::vector<Event>& out) const {
  const PartFile& part = *run.part;
  each_record(
      run.chunk,
      [&](const RawRecord& record, const RawRecord* extra) {
        Event event;
        event.kind = static_cast<Kind>(record.what & 0xff);
        const std::uint64_t place = record.what >> 8 & 0xff;
        event.time = time_of(record.ticks.load(std::memory_order_relaxed));
        event.bytes = record.what >> 16 == guard::kMostBytes ? kUnlimited.count() : record.what >> 16;
        if (is_answer(event.kind))
          event.detail = static_cast<std::uint32_t>(record.address);
        else
          event.address = record.address;
        event.charged = extra != nullptr ? static_cast<std::int64_t>(extra->address)
                                         : static_cast<std::int64_t>(static_cast<std::int32_t>(record.rest >> 32)) *
                                               static_cast<std::int64_t>(guard::kPageOfCharge);
        if (event.charged > kMostCharge || event.charged < -kMostCharge) event.charged = 0;  // damaged
        event.stream = extra != nullptr ? extra->what : 0;
        const bool common = (place & guard::kPlaceCommon) != 0 && common_process_ < header_.processes.size();
        event.process = common ? common_process_ : part.process;
        event.thread = run.chunk.header->thread;
        const std::uint64_t site = record.rest & 0xffffffff;
        event.site = site < part.sites.size() ? part.sites[site] : 0;
        event.device = part.devices[place & guard::kPlaceDevice];
        event.account = static_cast<Account>(place >> guard::kPlaceAccount & 3);
        out.push_back(event);
      },
      [](const RawRecord&, std::string_view) {});
  run.chunk.drop();
  std::stable_sort(out.begin(), out.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
}

/// The beginnings and ends of processes, merged with the events that are passed on. At its end a process gives back
/// what it still holds. The functions return false when the receiver wants no more.
class Parts::Lives {
 public:
  Lives(const Parts& parts, const std::function<bool(const Event&)>& take)
      : parts_(parts), take_(take), is_over_(parts.header_.processes.size(), false) {
    for (std::uint32_t process = 0; process < parts.process_began_.size(); ++process) {
      due_.emplace(parts.process_began_[process], std::pair(process, Kind::kProcessBegan));
      if (parts.process_ended_[process] >= 0)
        due_.emplace(parts.process_ended_[process], std::pair(process, Kind::kProcessEnded));
    }
  }

  /// Returns the time of the next beginning or end; without one, the largest time.
  [[nodiscard]] std::int64_t next() const { return due_.empty() ? INT64_MAX : due_.begin()->first; }

  /// Passes an event on. Its time becomes that of the event before it if it is earlier.
  bool give(Event event) {
    now_ = event.time = std::max(now_, event.time);
    held_[{event.process, event.device, event.account}] += event.charged;
    return take_(event);
  }

  /// Passes on the beginnings and ends up to `time`.
  bool give_until(std::int64_t time) {
    while (!due_.empty() && due_.begin()->first <= time) {
      const auto [when, what] = *due_.begin();
      due_.erase(due_.begin());
      const auto [process, kind] = what;
      if (kind == Kind::kProcessBegan ? !begin(process, when) : !is_over_[process] && !end(process, when)) return false;
    }
    return true;
  }

  /// Ends the process with the number `pid`, which another process has found dead, unless its end was noted before.
  bool end_found_dead(std::uint64_t pid, std::int64_t time) {
    std::size_t found = 0, count = 0;
    for (std::size_t process = 0; process < parts_.process_began_.size(); ++process) {
      const bool lived = !is_over_[process] && parts_.process_began_[process] <= time;
      if (!lived || static_cast<std::uint64_t>(parts_.header_.processes[process].pid) != pid) continue;
      found = process;
      ++count;  // processes of different containers may have the same number
    }
    return count != 1 || end(static_cast<std::uint32_t>(found), time);
  }

  /// Ends every process that has not ended.
  bool end_all() {
    for (std::uint32_t process = 0; process < is_over_.size(); ++process)
      if (!is_over_[process] && !end(process, now_)) return false;
    return true;
  }

 private:
  bool begin(std::uint32_t process, std::int64_t time) {
    Event event;
    event.kind = Kind::kProcessBegan;
    event.time = time;
    event.process = process;
    return give(event);
  }

  bool end(std::uint32_t process, std::int64_t time) {
    Event event;
    event.kind = Kind::kProcessEnded;
    event.time = time;
    event.process = process;
    bool any = false;
    is_over_[process] = true;
    for (auto& [key, bytes] : held_) {
      const auto& [of, device, account] = key;
      if (of != process || bytes == 0) continue;
      event.device = device;
      event.account = account;
      event.charged = -bytes;
      any = true;
      if (!give(event)) return false;
    }
    event.charged = 0;
    return any || give(event);
  }

  const Parts& parts_;
  const std::function<bool(const Event&)>& take_;
  std::multimap<std::int64_t, std::pair<std::uint32_t, Kind>> due_;  ///< by time
  std::vector<bool> is_over_;                                        ///< by process
  std::map<std::tuple<std::uint32_t, std::uint16_t, Account>, std::int64_t>
      held_;  ///< bytes of a process on an account
  std::int64_t now_ = 0;
};

/// The chunks that may have the next event, each with the events that are left in it.
class Parts::OpenRuns {
 public:
  explicit OpenRuns(const Parts& parts) : parts_(parts) {}

  /// Chooses the chunk that has the earliest event. Returns false if no event is left.
  bool choose() {
    while (next_run_ < parts_.runs_.size() && (due_.empty() || next_opening() <= std::get<0>(due_.top()))) open();
    if (due_.empty()) return false;
    std::tie(std::ignore, order_, chosen_) = due_.top();
    due_.pop();
    bound_ = std::min(due_.empty() ? INT64_MAX : std::get<0>(due_.top()), next_opening());
    return true;
  }
  /// Returns the next event of the chosen chunk, which must have one.
  [[nodiscard]] const Event& front() const { return slots_[chosen_].events[slots_[chosen_].next]; }
  const Event& take() { return slots_[chosen_].events[slots_[chosen_].next++]; }
  [[nodiscard]] bool is_empty() const { return slots_[chosen_].next == slots_[chosen_].events.size(); }
  /// Returns true if the chosen chunk has an event before any other chunk may have one.
  [[nodiscard]] bool stays_first() const { return !is_empty() && front().time <= bound_; }
  /// Puts the chosen chunk back among the others, or closes it.
  void put_back() {
    if (is_empty())
      free_slots_.push_back(chosen_);
    else
      due_.emplace(front().time, order_, chosen_);
  }

 private:
  struct Open {
    std::vector<Event> events;
    std::size_t next = 0;
  };
  using Due = std::tuple<std::int64_t, std::size_t, std::size_t>;  // time, order of opening, slot

  [[nodiscard]] std::int64_t next_opening() const {
    return next_run_ < parts_.runs_.size() ? parts_.runs_[next_run_].from - kEarly : INT64_MAX;
  }
  void open() {
    std::size_t slot = slots_.size();
    if (free_slots_.empty()) {
      slots_.emplace_back();
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    slots_[slot].events.clear();
    slots_[slot].next = 0;
    parts_.load(parts_.runs_[next_run_], slots_[slot].events);
    if (slots_[slot].events.empty())
      free_slots_.push_back(slot);
    else
      due_.emplace(slots_[slot].events.front().time, next_run_, slot);
    ++next_run_;
  }

  const Parts& parts_;
  std::vector<Open> slots_;
  std::vector<std::size_t> free_slots_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::size_t next_run_ = 0, order_ = 0, chosen_ = 0;
  std::int64_t bound_ = 0;
};

void Parts::read(const std::function<bool(const Event&)>& take) const {
  Lives lives(*this, take);
  for (OpenRuns runs(*this); runs.choose(); runs.put_back()) {
    if (!lives.give_until(runs.front().time)) return;
    do {
      const Event& event = runs.take();
      const bool goes_on =
          event.kind == Kind::kProcessEnded ? lives.end_found_dead(event.address, event.time) : lives.give(event);
      if (!goes_on) return;
    } while (runs.stays_first() && runs.front().time < lives.next());
  }
  if (!lives.give_until(INT64_MAX)) return;
  if (!header_.complete && header_.lost == 0) return;  // the program runs, or its end is unknown
  lives.end_all();
}

}  // namespace

Result<std::unique_ptr<Recording>> open_parts(const std::string& path) { return Parts::open(path); }

}  // namespace ration::trace
