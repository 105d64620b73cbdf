#include "guard/recorder/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "guard/environment.hpp"
#include "guard/hooks/table.hpp"
#include "guard/recorder/call_sites.hpp"
#include "guard/recorder/part_file.hpp"
#include "guard/recorder/record_layout.hpp"
#include "guard/recorder/ticks.hpp"

namespace ration::guard {

std::atomic<bool> is_recording{false};

namespace {

/// The number of lost events between two attempts to extend a file that could not grow.
constexpr std::uint64_t kLostBetweenAttempts = 1024;

Table<std::uint32_t> text_numbers;

/// The home of a thread (see ChunkHeader), and its innermost open call.
struct Thread {
  char* next = nullptr;  // the place of the next record
  char* end = nullptr;   // the end of the home; null if the thread has none yet
  Recorded* open = nullptr;
  std::uint32_t life = 0;    // Part::life when the thread took the home
  std::uint32_t number = 0;  // the thread's number for call_site() in this life; 0 if none yet
  std::uint32_t begins = 0;  // how many of the home's last records are beginnings of ranges
};
// The access to initial-exec storage takes one instruction. A library that is loaded late gets little of this storage;
// this object takes 40 bytes.
[[gnu::tls_model("initial-exec")]] thread_local Thread own;

void lose(int error) noexcept {
  part.header->lost.fetch_add(1, std::memory_order_relaxed);
  if (error != 0) part.header->reason.store(static_cast<std::uint32_t>(error), std::memory_order_relaxed);
}

/// Makes room for events: empties this thread's home (ChunkHeader), or gives the thread one if it has none. If that
/// fails, counts an event as lost and returns false.
[[gnu::noinline]] bool make_room() noexcept {
  Thread& thread = own;
  const std::uint32_t life = part.life.load(std::memory_order_relaxed);
  if (thread.life != life) {
    thread.next = thread.end = nullptr;
    thread.number = 0;
    thread.life = life;
  }
  if (part.header == nullptr) return false;
  const std::uint64_t lost = part.header->lost.load(std::memory_order_relaxed);
  if (!part.has_file || lost % kLostBetweenAttempts != 0) {
    lose(0);
    return false;
  }
  const int saved = errno;
  int error = 0;
  char* const home = empty_home(thread.end == nullptr ? nullptr : thread.end - kChunkSize, error);
  errno = saved;
  if (error != 0) {
    lose(error);
    return false;
  }
  thread.next = home + sizeof(ChunkHeader);
  thread.end = home + kChunkSize;
  return true;
}

/// Returns room for `count` records in a row in this thread's home, or null if the event is lost.
[[gnu::always_inline]] inline RawRecord* room_for(Thread& thread, std::size_t count) noexcept {
  const bool has_room = thread.life == part.life.load(std::memory_order_relaxed) &&
                        static_cast<std::size_t>(thread.end - thread.next) >= count * sizeof(RawRecord);
  if (!has_room) [[unlikely]] {
    if (!make_room()) return nullptr;
  }
  auto* room = reinterpret_cast<RawRecord*>(thread.next);
  thread.next += count * sizeof(RawRecord);
  thread.begins = 0;
  return room;
}

bool write_text(std::uint32_t number, TextKind kind, const void* text, std::size_t length) noexcept {
  const std::size_t records = (length + sizeof(RawRecord) - 1) / sizeof(RawRecord);
  RawRecord* room = room_for(own, records + 1);
  if (room == nullptr) return false;
  std::memcpy(static_cast<void*>(room + 1), text, length);
  room->address = number;
  room->what = std::uint64_t{length} << 16 | kTextRecord;
  room->rest = static_cast<std::uint64_t>(kind);
  room->ticks.store(ticks_now(), std::memory_order_release);
  return true;
}

[[gnu::destructor]] void note_end() noexcept {
  if (!recording() || !part.has_file || part.header->pid != ::getpid()) return;
  part.header->ended = anchor_now();
}

/// What tells whether something was recorded during a range of the program (begin_range()).
struct Ranges {
  std::atomic<bool> began{false};                // a range began after the event at `other`
  std::atomic<std::uint64_t> other{0};           // ticks of the first event after a beginning that is not a range
  std::atomic<std::uint64_t> ticks_of_short{0};  // 0: not known yet
};
Ranges ranges;

[[gnu::noinline]] void note_other_event() noexcept {
  ranges.other.store(ticks_now(), std::memory_order_relaxed);
  ranges.began.store(false, std::memory_order_relaxed);
}

/// Returns a millisecond in ticks, by their rate since the recording began.
std::uint64_t ticks_of_short_range() noexcept {
  constexpr std::uint64_t kShort = kSecond / 1000;
  if (const std::uint64_t known = ranges.ticks_of_short.load(std::memory_order_relaxed); known != 0) return known;
  const Anchor now = anchor_now(), &began = part.header->began;
  const std::uint64_t passed = std::max<std::uint64_t>(now.monotonic_ns - began.monotonic_ns, 1);
  const auto ticks =
      static_cast<std::uint64_t>(static_cast<unsigned __int128>(now.ticks - began.ticks) * kShort / passed);
  ranges.ticks_of_short.store(std::max<std::uint64_t>(ticks, 1), std::memory_order_relaxed);
  return ticks;
}

[[gnu::always_inline]] inline void record_in(Thread& thread, const RecordedEvent& event) noexcept {
  const std::int64_t pages = event.charge >> kShiftOfPage;
  const bool fits = pages == static_cast<std::int32_t>(pages) && pages << kShiftOfPage == event.charge;
  const bool more = !fits || event.stream != 0;
  RawRecord* room = room_for(thread, more ? 2 : 1);
  if (room == nullptr) [[unlikely]]
    return;
  std::uint64_t place = event.device | static_cast<std::uint64_t>(event.account) << kPlaceAccount;
  if (event.common) {
    place |= kPlaceCommon;
    part.header->has_common.store(1, std::memory_order_relaxed);
  }
  if (more) [[unlikely]] {
    place |= kPlaceMore;
    room[1].address = static_cast<std::uint64_t>(event.charge);
    room[1].what = event.stream;
  }
  room->address = event.address;
  room->what = std::min(event.bytes, kMostBytes) << 16 | place << 8 | static_cast<std::uint64_t>(event.kind);
  room->rest = static_cast<std::uint64_t>(static_cast<std::uint32_t>(pages)) << 32 | event.site;
  room->ticks.store(event.ticks != 0 ? event.ticks : ticks_now(), std::memory_order_release);
  if (ranges.began.load(std::memory_order_relaxed)) [[unlikely]]
    note_other_event();
}

/// Writes a record of a range. Returns null if it is lost.
RawRecord* write_range(Thread& thread, trace::Kind kind, std::uint32_t site, std::uint64_t domain,
                       std::uint64_t ticks) noexcept {
  RawRecord* room = room_for(thread, 1);
  if (room == nullptr) return nullptr;
  room->address = domain;
  room->what = static_cast<std::uint64_t>(kind);
  room->rest = site;
  room->ticks.store(ticks, std::memory_order_release);
  return room;
}

/// Returns a hash of the text. Reads eight bytes at a time: a name of 70 bytes, of which XLA has one for each kernel,
/// takes 7 ns instead of 58.
std::uint64_t hash_of(const void* text, std::size_t length, std::uint64_t seed) noexcept {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
  const auto mixed = [](std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * kOdd;
    return hash ^ hash >> 32;
  };
  const auto* bytes = static_cast<const char*>(text);
  std::uint64_t hash = mixed(seed, length), word = 0;
  for (; length >= sizeof word; length -= sizeof word, bytes += sizeof word) {
    std::memcpy(&word, bytes, sizeof word);
    hash = mixed(hash, word);
  }
  word = 0;
  std::memcpy(&word, bytes, length);
  return mixed(hash, word) * kOdd;
}

}  // namespace

void record(const RecordedEvent& event) noexcept { record_in(own, event); }

void begin_range(std::uint32_t site, std::uint64_t domain) noexcept {
  Thread& thread = own;
  const std::uint32_t before = thread.begins;
  if (!ranges.began.load(std::memory_order_relaxed)) ranges.began.store(true, std::memory_order_relaxed);
  RawRecord* room = write_range(thread, trace::Kind::kRangeBegan, site, domain, ticks_now());
  if (room == nullptr) return;
  const bool is_first = reinterpret_cast<char*>(room) == thread.end - kChunkSize + sizeof(ChunkHeader);
  thread.begins = is_first ? 1 : before + 1;
}

void end_range(std::uint64_t domain) noexcept {
  Thread& thread = own;
  const std::uint64_t now = ticks_now();
  if (thread.begins != 0 && thread.life == part.life.load(std::memory_order_relaxed)) {
    RawRecord* last = reinterpret_cast<RawRecord*>(thread.next) - 1;
    const std::uint64_t began = last->ticks.load(std::memory_order_relaxed);
    if (last->address == domain && ranges.other.load(std::memory_order_relaxed) < began &&
        now - began < ticks_of_short_range()) {
      last->ticks.store(0, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);  // before the next record comes to its place
      thread.next -= sizeof *last;
      --thread.begins;
      return;
    }
  }
  (void)write_range(thread, trace::Kind::kRangeEnded, 0, domain, now);
}

std::uint32_t number_of_text(TextKind kind, const void* text, std::size_t length, std::uint32_t most) noexcept {
  if (part.header == nullptr) return 0;
  const std::uint64_t hash = hash_of(text, length, static_cast<std::uint64_t>(kind)) | 1;
  std::uint32_t number = 0;
  if (text_numbers.find(hash, number)) return number;
  if (part.header->texts.load(std::memory_order_relaxed) + 1 >= most) return 0;
  number = part.header->texts.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number >= kMaxTexts || !write_text(number, kind, text, length)) return 0;
  text_numbers.insert(hash, number);
  return number;
}

namespace {

/// Returns the number of the text with the calls that led here, or 0 if calls are not recorded.
[[gnu::always_inline]] inline std::uint32_t site_of(Thread& thread) noexcept {
  static std::atomic<std::uint32_t> threads{0};
  if (!has_call_sites()) [[likely]]
    return 0;
  const std::uint32_t life = part.life.load(std::memory_order_relaxed);
  if (thread.life != life || thread.number == 0) thread.number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return call_site(thread.number);
}

}  // namespace

int begin_recording(const RecordedDevices& devices, bool of_nvml) noexcept {
  if (environment().record[0] == '\0') return 0;
  const int saved = errno;
  if (part.header != nullptr) {  // an earlier recording of this process
    part.life.fetch_add(1);
    text_numbers.remove_if([](std::uint64_t, std::uint32_t) { return true; });
  }
  const int error = make_part(devices, of_nvml);
  errno = saved;
  is_recording.store(part.header != nullptr, std::memory_order_release);
  return error;
}

void end_recording() noexcept {
  note_end();
  is_recording.store(false, std::memory_order_relaxed);
}

void forget_recording() noexcept {
  is_recording.store(false, std::memory_order_relaxed);
  part.header = nullptr;
  part.has_file = false;
  part.life.fetch_add(1);
  part.growing.unlock();
  text_numbers.abandon();
}

// ------------------------------------------------------------------------------------------------------------- calls

namespace {

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

/// Returns true for events that give memory up.
bool gives_up(trace::Kind kind) noexcept {
  switch (kind) {
    case trace::Kind::kFree:
    case trace::Kind::kContextEnded:
    case trace::Kind::kVirtualRelease:
    case trace::Kind::kVirtualUnmap:
    case trace::Kind::kPoolTrimmed:
      return true;
    default:
      return false;
  }
}

/// Returns the kinds of charges that belong to an event of that kind, one bit each. Charges of other kinds become
/// events of their own.
std::uint32_t kinds_of(trace::Kind kind) noexcept {
  const auto bit = [](book::Kind each) { return 1U << static_cast<std::uint32_t>(each); };
  switch (kind) {
    case trace::Kind::kContextMade:
    case trace::Kind::kContextEnded:
      return bit(book::Kind::kContext);
    case trace::Kind::kGraph:
    case trace::Kind::kPoolGrew:
    case trace::Kind::kPoolTrimmed:
      return bit(book::Kind::kPool);
    default:
      return bit(book::Kind::kHeap) | bit(book::Kind::kManaged);
  }
}

void put_place(RecordedEvent& event, std::uint32_t account, book::Kind kind) noexcept {
  const bool of_host = account == book::kHostAccount;
  event.device = of_host || account >= kPartAccounts ? 0 : static_cast<std::uint8_t>(account);
  event.account = of_host                        ? trace::Account::kPinnedHost
                  : kind == book::Kind::kManaged ? trace::Account::kManaged
                                                 : trace::Account::kDevice;
}

/// Returns the kind of an event that is a charge and nothing else.
trace::Kind kind_of(book::Kind kind, std::int64_t bytes) noexcept {
  if (kind == book::Kind::kPool) return bytes > 0 ? trace::Kind::kPoolGrew : trace::Kind::kPoolTrimmed;
  if (kind == book::Kind::kContext) return bytes > 0 ? trace::Kind::kContextMade : trace::Kind::kContextEnded;
  return bytes > 0 ? trace::Kind::kAllocate : trace::Kind::kFree;
}

void record_charge(trace::Kind event_kind, std::uint32_t account, std::int64_t bytes, book::Kind kind, bool common,
                   std::uint64_t ticks) noexcept {
  RecordedEvent event{};
  event.kind = event_kind;
  if (bytes > 0 && event_kind != trace::Kind::kHeldBefore) event.site = site_of(own);
  put_place(event, account, kind);
  event.common = common;
  if (kind == book::Kind::kPool) event.bytes = static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes);
  event.charge = bytes;
  event.ticks = ticks;
  record(event);
}

}  // namespace

[[gnu::noinline]] void Recorded::begin(trace::Kind kind, std::uint64_t bytes, std::uint64_t stream) noexcept {
  Thread& thread = own;
  is_open_ = true;
  is_done_ = is_denied_ = false;
  error_ = charge_count_ = 0;
  account_ = kNowhere;
  outer_ = thread.open;
  thread.open = this;
  thread_ = &thread;
  event_.kind = kind;
  event_.common = false;
  event_.site = 0;
  event_.address = 0;
  event_.bytes = bytes;
  event_.charge = 0;
  event_.stream = stream;
  event_.ticks = gives_up(kind) ? ticks_now() : 0;
}

[[gnu::noinline]] void Recorded::end() noexcept {
  auto& thread = *static_cast<Thread*>(thread_);
  thread.open = outer_;
  const std::uint32_t part_of_event = is_done_ ? kinds_of(event_.kind) : 0;
  book::Kind kind = book::Kind::kHeap;
  int others = 0;  // the number of charges outside the event, such as a pool's growth for a block
  for (int at = 0; at < charge_count_; ++at) {
    const Charge& charge = charges_[at];
    const bool is_part = (part_of_event >> static_cast<std::uint32_t>(charge.kind) & 1) != 0 && !charge.common &&
                         (account_ == charge.account || account_ == kNowhere);
    if (!is_part) {
      charges_[others++] = charge;
      continue;
    }
    event_.charge += charge.bytes;
    kind = charge.kind;
    account_ = charge.account;
  }
  if (error_ != 0) {
    event_.kind = trace::Kind::kRefused;
    event_.address = static_cast<std::uint64_t>(error_);
    event_.ticks = 0;
  }
  if (is_done_ || error_ != 0) {
    if (!gives_up(event_.kind)) event_.site = site_of(thread);
    put_place(event_, account_, kind);
    record_in(thread, event_);
  }
  // Records a pool's growth after the block for which it grew, so that the block is part of the peak.
  for (int at = 0; at < others; ++at) {
    const Charge& charge = charges_[at];
    if (charge.bytes != 0)
      record_charge(kind_of(charge.kind, charge.bytes), charge.account, charge.bytes, charge.kind, charge.common,
                    event_.ticks);
  }
}

void Recorded::write_note(trace::Kind kind, std::uint32_t account, std::uint64_t bytes, std::uint64_t detail) noexcept {
  RecordedEvent event{};
  event.kind = kind;
  put_place(event, account, book::Kind::kHeap);
  const bool is_of_call = kind != trace::Kind::kLimitChanged && kind != trace::Kind::kProcessEnded;
  event.site = is_of_call ? site_of(own) : 0;
  event.bytes = bytes;
  event.address = detail;
  record(event);
  if (kind != trace::Kind::kDenied) return;
  for (Recorded* open = own.open; open != nullptr; open = open->outer_) open->is_denied_ = true;
}

void Recorded::held_before(std::uint32_t account, std::int64_t bytes, book::Kind kind) noexcept {
  const bool is_of_program = kind == book::Kind::kHeap;
  record_charge(is_of_program ? trace::Kind::kHeldBefore : kind_of(kind, bytes), account, bytes, kind, false, 0);
}

void Recorded::charged(std::uint32_t account, std::int64_t bytes, book::Kind kind, bool common) noexcept {
  Recorded* open = own.open;
  if (open == nullptr) return record_charge(kind_of(kind, bytes), account, bytes, kind, common, 0);
  for (int at = 0; at < open->charge_count_; ++at) {
    Charge& charge = open->charges_[at];
    if (charge.account != account || charge.kind != kind || charge.common != common) continue;
    charge.bytes += bytes;
    return;
  }
  if (open->charge_count_ == kMaxCharges) return record_charge(kind_of(kind, bytes), account, bytes, kind, common, 0);
  open->charges_[open->charge_count_++] = {account, kind, common, bytes};
}

}  // namespace ration::guard
