#include "guard/recorder/recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "guard/environment.hpp"
#include "guard/hooks/table.hpp"
#include "guard/recorder/call_sites.hpp"
#include "guard/recorder/record_layout.hpp"
#include "guard/recorder/ticks.hpp"

namespace ration::guard {

std::atomic<bool> is_recording{false};

namespace {

/// The smallest and the largest step in which space is reserved. The steps grow with the file.
constexpr std::uint64_t kLeastStep = std::uint64_t{256} << 10, kMostStep = std::uint64_t{4} << 20;
/// The number of lost events between two attempts to extend a file that could not grow.
constexpr std::uint64_t kLostBetweenAttempts = 1024;

/// The file of this process.
struct Part {
  PartHeader* header = nullptr;  // header of `lost` if the process has no own file; null while nothing is recorded
  bool has_file = false;
  std::atomic<std::uint32_t> life{1};  // changes when no thread has a home yet: in a child, or for another recording
  char path[PATH_MAX];
  SpinLock growing;
};
Part part;
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

/// A file that is open only while some of it is mapped or written. A program may close every descriptor, so no
/// descriptor is kept. The system calls are made directly, since the functions of the C library are cancellation
/// points.
class OpenFile {
 public:
  OpenFile(const char* path, int flags) noexcept
      : file_(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600))) {}
  ~OpenFile() {
    if (file_ >= 0) ::syscall(SYS_close, file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return file_ >= 0; }

  /// Reserves space, so that no access to it can fail later. Returns the errno value of a failure, or 0.
  [[nodiscard]] int reserve(std::uint64_t offset, std::uint64_t size) const noexcept {
    if (!may_reach(offset + size)) return EFBIG;
    for (;;) {
      if (::syscall(SYS_fallocate, file_, 0, offset, size) == 0) return 0;
      if (errno == EOPNOTSUPP) return fill(offset, size);
      if (errno != EINTR) return errno;
    }
  }
  [[nodiscard]] void* map(std::uint64_t offset, std::size_t size) const noexcept {
    void* place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(offset));
    if (place == MAP_FAILED) return nullptr;
    ::madvise(place, size, MADV_DONTFORK);
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
    // If reserved space does not exist after all, this call fails; without it, a later access would raise a signal.
    if (::madvise(place, size, kPopulateWrite) == 0 || errno == EINVAL) return place;
    const int error = errno;
    ::munmap(place, size);
    errno = error;
    return nullptr;
  }
  /// Writes bytes into reserved space. Returns the errno value of a failure, or 0.
  [[nodiscard]] int write(std::uint64_t offset, const void* bytes, std::size_t size) const noexcept {
    if (!may_reach(offset + size)) return EFBIG;
    for (std::size_t done = 0; done < size;) {
      const long written =
          ::syscall(SYS_pwrite64, file_, static_cast<const char*>(bytes) + done, size - done, offset + done);
      if (written > 0)
        done += static_cast<std::size_t>(written);
      else if (written == 0 || errno != EINTR)
        return written == 0 ? ENOSPC : errno;
    }
    return 0;
  }

 private:
  /// Returns false if the system would send a signal to a process whose file grows to `size`.
  [[nodiscard]] static bool may_reach(std::uint64_t size) noexcept {
    rlimit limit{};
    return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
  }
  [[nodiscard]] int fill(std::uint64_t offset, std::uint64_t size) const noexcept {
    static constexpr char kZeros[4096] = {};
    for (std::uint64_t done = 0; done < size; done += sizeof kZeros)
      if (const int error = write(offset + done, kZeros, sizeof kZeros); error != 0) return error;
    return 0;
  }

  const int file_;
};

void lose(int error) noexcept {
  part.header->lost.fetch_add(1, std::memory_order_relaxed);
  if (error != 0) part.header->reason.store(static_cast<std::uint32_t>(error), std::memory_order_relaxed);
}

/// Reserves space for a chunk and returns its offset. If there is no space, returns 0 and sets `error`.
std::uint64_t take_offset(const OpenFile& file, int& error) noexcept {
  const SpinGuard guard(part.growing);
  PartHeader& header = *part.header;
  const std::uint64_t offset = header.next.load(std::memory_order_relaxed);
  std::uint64_t space = header.space.load(std::memory_order_relaxed);
  if (offset + kChunkSize > space) {
    const std::uint64_t step = std::clamp(space / kChunkSize * kChunkSize, kLeastStep, kMostStep);
    error = file.reserve(space, step);
    if (error == 0)
      space += step;
    else if (error == ENOSPC && file.reserve(space, kChunkSize) == 0)
      space += kChunkSize;
    header.space.store(space, std::memory_order_relaxed);
    if (offset + kChunkSize > space) return 0;
  }
  header.next.store(offset + kChunkSize, std::memory_order_relaxed);
  return offset;
}

/// Maps a new chunk as the home of a thread. If that fails, returns null and sets `error`.
char* take_home(const OpenFile& file, int& error) noexcept {
  const std::uint64_t offset = take_offset(file, error);
  if (offset == 0) return nullptr;
  auto* home = static_cast<char*>(file.map(offset, kChunkSize));
  if (home == nullptr) {
    error = errno;
    return nullptr;
  }
  auto* header = reinterpret_cast<ChunkHeader*>(home);
  header->home = offset;
  header->thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  header->began = anchor_now();
  std::atomic_thread_fence(std::memory_order_release);  // readers accept a home once it has the magic number
  header->magic = kChunkMagic;
  return home;
}

/// Appends a copy of a full home to the file, and empties the home. Writing a chunk takes a tenth of the time that the
/// system needs to map 64 KiB of a file on a disk, page by page. Returns the errno value of a failure, or 0.
int empty_home(const OpenFile& file, char* home) noexcept {
  auto* header = reinterpret_cast<ChunkHeader*>(home);
  int error = 0;
  const std::uint64_t offset = take_offset(file, error);
  if (offset == 0) return error;
  // The header is written last, so that a copy that was begun and failed does not count.
  error = file.write(offset + sizeof *header, header + 1, kChunkSize - sizeof *header);
  if (error == 0) error = file.write(offset, header, sizeof *header);
  if (error != 0) return error;
  const std::uint64_t next_fill = header->fill.load(std::memory_order_relaxed) + 1;
  header->copied.store(next_fill, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memset(static_cast<void*>(header + 1), 0, kChunkSize - sizeof *header);
  header->began = anchor_now();
  header->fill.store(next_fill, std::memory_order_release);
  return 0;
}

/// Makes room by emptying this thread's home, or gives the thread a home. If that fails, counts an event as lost and
/// returns false.
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
  char* home = thread.end == nullptr ? nullptr : thread.end - kChunkSize;
  {
    const OpenFile file(part.path, 0);
    if (!file.is_open())
      error = errno;
    else if (home == nullptr)
      home = take_home(file, error);
    else
      error = empty_home(file, home);
  }
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

/// Copies the command line of this process, its words separated by spaces.
void copy_command(char (&out)[512]) noexcept {
  const int file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0));
  if (file < 0) return;
  const long length = ::syscall(SYS_read, file, out, sizeof out - 1);
  ::syscall(SYS_close, file);
  for (long at = 0; at + 1 < length; ++at)
    if (out[at] == '\0') out[at] = ' ';
}

void fill(PartHeader& header, const RecordedDevices& devices, bool of_nvml) noexcept {
  header.version = kPartVersion;
  header.pid = ::getpid();
  header.parent = ::getppid();
  header.counts_nanoseconds = counts_nanoseconds ? 1 : 0;
  header.is_of_nvml = of_nvml ? 1 : 0;
  header.began = anchor_now();
  header.next.store(kChunkSize);
  header.account_count = devices.count;
  for (std::uint32_t account = 0; account < devices.count; ++account)
    std::copy(devices.uuids[account].begin(), devices.uuids[account].end(), header.devices[account]);
  copy_command(header.command);
  const char* tool = ::getenv(kNvtxVariable);
  const char* name = tool != nullptr ? std::strrchr(tool, '/') : nullptr;
  header.has_other_nvtx =
      tool != nullptr && *tool != '\0' && (name == nullptr || std::strcmp(name + 1, kNvtxLibrary) != 0);
  std::memcpy(header.magic, kPartMagic, sizeof header.magic);
}

/// Makes the file of this process. The header gets the space of a whole chunk, so that every chunk begins at an offset
/// that can be mapped.
bool make_file(const RecordedDevices& devices, bool of_nvml) noexcept {
  const int length =
      std::snprintf(part.path, sizeof part.path, "%s/%d-%llx%s%s", environment().record, ::getpid(),
                    static_cast<unsigned long long>(clock_ns(CLOCK_MONOTONIC)), of_nvml ? "-nvml" : "", kPartEnding);
  if (length <= 0 || static_cast<std::size_t>(length) >= sizeof part.path) return false;
  const OpenFile file(part.path, O_CREAT | O_EXCL);
  if (!file.is_open()) return false;
  int error = file.reserve(0, kChunkSize);
  auto* header = error == 0 ? static_cast<PartHeader*>(file.map(0, kPartHeaderSize)) : nullptr;
  if (header == nullptr) {
    if (error == 0) error = errno;
    ::unlink(part.path);
    errno = error;
    return false;
  }
  header->space.store(kChunkSize);
  fill(*header, devices, of_nvml);
  part.header = header;
  return true;
}

/// Maps the file in which all processes without a part of their own count the events that they lose.
void use_common_count(int error) noexcept {
  char path[PATH_MAX];
  const int length = std::snprintf(path, sizeof path, "%s/%s", environment().record, kLostFile);
  if (length <= 0 || static_cast<std::size_t>(length) >= sizeof path) return;
  const OpenFile file(path, 0);
  part.header = file.is_open() ? static_cast<PartHeader*>(file.map(0, kPartHeaderSize)) : nullptr;
  if (part.header != nullptr) part.header->reason.store(static_cast<std::uint32_t>(error));
}

[[gnu::destructor]] void note_end() noexcept {
  if (!recording() || !part.has_file || part.header->pid != ::getpid()) return;
  part.header->ended = anchor_now();
}

/// Ranges of threads, and when something else was recorded last.
struct Ranges {
  std::atomic<bool> began{false};                // a range began since `other`
  std::atomic<std::uint64_t> other{0};           // ticks of the first other event after the newest beginning
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
  part.has_file = make_file(devices, of_nvml);
  const int error = part.has_file ? 0 : errno;
  if (!part.has_file) use_common_count(error);
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

/// Returns the kinds of charges that belong to such an event, one bit each. Charges of other kinds become events of
/// their own.
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
