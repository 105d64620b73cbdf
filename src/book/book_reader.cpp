#include "book/book_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/printable.hpp"
#include "base/system_calls.hpp"
#include "book/book.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

// Copies a text field of a file that may contain anything: at most the bytes of the field, and no control characters.
template <std::size_t N>
std::string text(const char (&field)[N]) {
  return printable(std::string(field, ::strnlen(field, N)));
}

std::uint64_t plain(const Word& word) noexcept { return word.load(std::memory_order_relaxed); }
Bytes bytes(const Word& word) noexcept { return Bytes{plain(word)}; }

ProcessSnapshot process_from(const BookLayout& layout, std::uint32_t index) {
  const SlotRecord& slot = layout.slots[index];
  ProcessSnapshot process;
  process.slot = index;
  process.identity.pid = slot.pid;
  process.identity.user = slot.user;
  process.identity.start_time = slot.start_time;
  process.identity.pid_namespace = slot.pid_namespace;
  process.command = text(slot.command);
  process.attached_ns = plain(slot.attached_ns);
  process.waiting = slot.waiting.load(std::memory_order_relaxed);
  process.unmovable = slot.unmovable.load(std::memory_order_relaxed);
  for (std::uint32_t account = 0; account < layout.header.account_count; ++account) {
    process.held.emplace_back(held_in(slot, index, account, plain(layout.accounts[account].usage)));
    process.context.push_back(bytes(slot.parts[account].context));
    process.pooled.push_back(bytes(slot.parts[account].pooled));
    process.managed.push_back(bytes(slot.parts[account].managed));
    process.shared.emplace_back();
  }
  process.host = Bytes{held_in(slot, index, kHostAccount, plain(layout.host.usage))};
  return process;
}

Denial denial_from(const DenialRecord& record) {
  Denial denial;
  denial.sequence = plain(record.sequence);
  denial.time_ns = record.time_ns;
  denial.requested = Bytes{record.requested};
  denial.used = Bytes{record.used};
  denial.limit = Bytes{record.limit};
  denial.device_free = record.device_free;
  denial.pid = record.pid;
  denial.account = record.account;
  denial.reason = static_cast<DenialReason>(record.reason);
  denial.function = text(record.function);
  denial.waited_ns = record.waited_ns;
  denial.device = record.device_uuid;
  return denial;
}

bool read_whole(int descriptor, std::byte* target, std::size_t offset, std::size_t size) noexcept {
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = ::pread(descriptor, target + done, size - done, static_cast<off_t>(offset + done));
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

/// An image of a book in memory. It contains only the loaded parts of the file, at their places in the layout; the
/// other pages stay untouched.
class BookImage {
 public:
  BookImage() : storage_(new std::byte[sizeof(BookLayout) + alignof(BookLayout)]) {
    void* start = storage_.get();
    std::size_t space = sizeof(BookLayout) + alignof(BookLayout);
    layout_ = static_cast<BookLayout*>(std::align(alignof(BookLayout), sizeof(BookLayout), start, space));
  }
  [[nodiscard]] const BookLayout& layout() const noexcept { return *layout_; }
  [[nodiscard]] bool load(int descriptor, std::size_t offset, std::size_t size) const noexcept {
    return read_whole(descriptor, at(offset), offset, size);
  }
  /// Returns true if the file's bytes there are still those that were loaded.
  [[nodiscard]] bool is_current(int descriptor, std::size_t offset, std::size_t size) {
    compared_.resize(std::max(size, compared_.size()));
    return read_whole(descriptor, compared_.data(), offset, size) &&
           std::memcmp(compared_.data(), at(offset), size) == 0;
  }

 private:
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept {
    return reinterpret_cast<std::byte*>(layout_) + offset;
  }

  std::unique_ptr<std::byte[]> storage_;  // not zeroed, because most of it is never touched
  std::vector<std::byte> compared_;
  BookLayout* layout_ = nullptr;
};

BookImage& image_of_this_thread() {
  thread_local BookImage image;
  return image;
}

/// Copies the newest names of unlisted functions, oldest first. A name that is being written is counted but left out.
void copy_unlisted(const BookHeader& header, BookSnapshot& snapshot) {
  snapshot.unlisted_count = plain(header.unlisted_count);
  std::map<std::uint64_t, std::string> names;
  for (const UnlistedRecord& record : header.unlisted)
    if (const auto number = plain(record.sequence); number != 0 && (number & kBeingWritten) == 0)
      names[number] = text(record.name);
  for (auto& [number, name] : names)
    if (name.starts_with(kStarted))
      snapshot.launchers.push_back(name.substr(sizeof kStarted - 1));
    else
      snapshot.unlisted.push_back(std::move(name));
  snapshot.unlisted_count -= std::min<std::uint64_t>(snapshot.unlisted_count, snapshot.launchers.size());
}

void copy_header(const BookHeader& header, BookSnapshot& snapshot) {
  snapshot.name = text(header.name);
  snapshot.tenant = text(header.tenant);
  snapshot.slice = text(header.slice);
  snapshot.labels = text(header.labels);
  snapshot.command = text(header.command);
  snapshot.simulation = text(header.simulation);
  snapshot.run_number = header.run_number;
  snapshot.created_ns = header.created_ns;
  snapshot.ended_ns = plain(header.ended_ns);
  snapshot.exit_status = header.exit_status.load(std::memory_order_relaxed);
  snapshot.limit_changes = plain(header.limit_changes);
  snapshot.denial_count = plain(header.denial_count);
  snapshot.waiting = header.waiters.load(std::memory_order_relaxed);
  snapshot.granted_waits = plain(header.granted_waits);
  copy_unlisted(header, snapshot);
  for (std::uint32_t account = 0; account < header.account_count; ++account)
    snapshot.wanted.emplace_back(snapshot.waiting > 0 ? plain(header.wanted[account]) : 0);
  snapshot.creator.pid = header.creator_pid;
  snapshot.creator.user = header.creator_user;
  snapshot.creator.start_time = header.creator_start_time;
  snapshot.creator.pid_namespace = header.creator_pid_namespace;
  snapshot.on_deny = static_cast<OnDeny>(header.on_deny);
  snapshot.account_mode = static_cast<AccountMode>(header.account_mode);
  snapshot.managed = static_cast<ManagedPolicy>(header.managed);
}

void copy_accounts(const BookLayout& layout, BookSnapshot& snapshot) {
  for (std::uint32_t account = 0; account < layout.header.account_count; ++account) {
    const AccountRecord& record = layout.accounts[account];
    const Bytes used{used_bytes(plain(record.usage))};
    const std::uint64_t unrequested = plain(layout.header.unrequested[account]);
    snapshot.accounts.push_back({record.device_uuid, text(record.device_name), bytes(record.device_total),
                                 bytes(record.limit), bytes(record.guarantee), used, bytes(record.peak),
                                 plain(record.denials),
                                 Bytes{held_in(layout.slots[kCommonSlot], kCommonSlot, account, plain(record.usage))},
                                 Bytes{0}, Bytes{unrequested_bytes(unrequested)}, times_emptied(unrequested),
                                 bytes(layout.grants.reach[account]), bytes(layout.header.own_limit[account]),
                                 std::max(bytes(record.limit), bytes(layout.grants.granted[account]))});
  }
}

void copy_host(const HostRecord& host, BookSnapshot& snapshot) {
  if (plain(host.counted) == 0) return;
  snapshot.host = {true,
                   bytes(host.limit),
                   bytes(host.own_limit),
                   Bytes{used_bytes(plain(host.usage))},
                   bytes(host.peak),
                   plain(host.denials)};
}

std::uint32_t records_of(const BookLayout& layout) noexcept {
  return std::min<std::uint32_t>(layout.shared.bound.load(std::memory_order_relaxed), kMaxShared);
}

bool is_used(const SlotRecord& slot) noexcept { return life_of(plain(slot.state)) == SlotLife::kUsed; }

using Holders = SharedSnapshot::Holders;
static_assert(Holders().size() == kMaxProcesses);

Holders holders_of(const SharedRecord& record) {
  Holders holders;
  for (std::size_t word = kMaxProcesses / 64; word-- > 0;)
    holders = holders << 64 | Holders(plain(record.holders[word]));
  return holders;
}

void add_to_devices(const SharedSnapshot& shared, BookSnapshot& snapshot) {
  const Bytes all = shared.lent + shared.kept;
  snapshot.accounts[shared.account].shared += all;
  for (ProcessSnapshot& process : snapshot.processes) {
    const bool holds = shared.holders[process.slot];
    process.shared[shared.account] += holds ? all : shared.maker == process.slot ? shared.lent : Bytes{0};
  }
}

void copy_shared(const BookLayout& layout, BookSnapshot& snapshot) {
  snapshot.control_path = text(layout.shared.control_path);
  for (std::uint32_t index = 0; index < records_of(layout); ++index) {
    const SharedRecord& record = layout.shared.records[index];
    const bool of_host = record.account == kHostAccount && snapshot.host.counted;
    if (plain(record.number) == 0 || (record.account >= snapshot.accounts.size() && !of_host)) continue;
    SharedSnapshot shared;
    shared.number = plain(record.number);
    shared.part_of = plain(record.part_of);
    shared.account = record.account;
    const std::uint32_t maker = record.maker.load(std::memory_order_relaxed);
    if (maker != 0 && maker <= kMaxProcesses) shared.maker = maker - 1;
    const std::uint64_t word = plain(record.bytes);
    shared.lent = kGranule * lent_granules(word);
    shared.kept = kGranule * kept_granules(word);
    shared.given_up = kGranule * std::min(plain(record.waived), lent_granules(word));
    shared.holders = holders_of(record);
    shared.control_device = plain(record.control_device);
    shared.control_inode = plain(record.control_inode);
    if (!of_host) add_to_devices(shared, snapshot);
    snapshot.shared_memory.push_back(std::move(shared));
  }
}

/// The most readings of a book whose shared part changes during each reading.
constexpr int kReadings = 16;

/// Loads the parts of a snapshot. Sets `at_one_moment` to true if the shared part did not change while the slots were
/// loaded. If it changed, memory that moved between the shared part and the slots may be in both or in neither.
BookStatus load_once(int file, BookImage& image, bool& at_one_moment) {
  constexpr std::size_t kSlots = offsetof(BookLayout, slots), kShared = offsetof(BookLayout, shared),
                        kRecords = kShared + offsetof(SharedPart, records);
  const BookLayout& layout = image.layout();
  if (!image.load(file, 0, offsetof(BookLayout, denials))) return BookStatus::kTruncated;
  if (const BookStatus sound = check(layout.header); sound != BookStatus::kOk) return sound;
  if (!image.load(file, kShared, offsetof(SharedPart, names)) ||
      !image.load(file, kRecords, records_of(layout) * sizeof(SharedRecord)) ||
      !image.load(file, kSlots, slots_in_use(layout) * sizeof(SlotRecord)) ||
      !image.load(file, kSlots + kCommonSlot * sizeof(SlotRecord), sizeof(SlotRecord)))
    return BookStatus::kTruncated;
  at_one_moment = image.is_current(file, kShared, offsetof(SharedPart, names)) &&
                  image.is_current(file, kRecords, records_of(layout) * sizeof(SharedRecord));
  return BookStatus::kOk;
}

}  // namespace

// Returns false if an amount exceeds 1 PiB (no device has as much), or if a process id is not between 1 and 2^22, the
// highest that a kernel assigns.
static bool is_plausible(const BookSnapshot& book) {
  constexpr Bytes kMaxBytes{std::uint64_t{1} << 50};
  constexpr std::int32_t kLastPid = 1 << 22;
  const auto possible = [&](Bytes bytes) { return bytes <= kMaxBytes; };
  for (const AccountSnapshot& account : book.accounts)
    for (const Bytes bytes : {account.used, account.peak, account.guarantee, account.device_total, account.kept,
                              account.shared, account.unrequested})
      if (!possible(bytes)) return false;
  if (!possible(book.host.used) || !possible(book.host.peak)) return false;
  for (const ProcessSnapshot& process : book.processes) {
    if (!possible(process.host)) return false;
    if (process.identity.pid <= 0 || process.identity.pid > kLastPid) return false;
    for (const auto* amounts : {&process.held, &process.context, &process.pooled, &process.managed, &process.shared})
      if (!std::all_of(amounts->begin(), amounts->end(), possible)) return false;
  }
  return book.creator.pid > 0 && book.creator.pid <= kLastPid;
}

BookStatus BookReader::open(const char* path, BookReader& out) noexcept {
  // Opening some devices has side effects, so the kind of file is checked first.
  const FileDescriptor place{::open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW)};
  if (!place) return status_of(errno);
  struct stat status {};
  if (::fstat(place.get(), &status) != 0 || !S_ISREG(status.st_mode)) return BookStatus::kForeign;
  if (status.st_nlink > 1) return BookStatus::kForeign;  // a file with two names would count twice
  char itself[32];
  std::snprintf(itself, sizeof itself, "/proc/self/fd/%d", place.get());
  // O_NOATIME keeps each reading from writing an access time. Only the owner and root may use it.
  FileDescriptor file{::open(itself, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOATIME)};
  if (!file && errno == EPERM) file = FileDescriptor{::open(itself, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return status_of(errno);
  out.file_ = std::move(file);
  out.owner_ = status.st_uid;
  out.everybody_may_write_ = (status.st_mode & S_IWOTH) != 0;
  out.number_ = status.st_ino ^ birth_time_ns(out.file_.get());
  return BookStatus::kOk;
}

BookStatus BookReader::read(BookSnapshot& out, std::uint64_t denials_known) {
  BookImage& image = image_of_this_thread();
  const BookLayout& layout = image.layout();
  struct stat status {};
  const bool asked = ::fstat(file_.get(), &status) == 0;
  deleted_ = asked && status.st_nlink == 0;
  grown_to_ = asked && status.st_size > static_cast<off_t>(sizeof(BookLayout))
                  ? Bytes{static_cast<std::uint64_t>(status.st_size)}
                  : Bytes{0};
  std::uint64_t magic = 0;
  if (!asked || !read_whole(file_.get(), reinterpret_cast<std::byte*>(&magic), 0, sizeof magic))
    return BookStatus::kTruncated;
  if (magic != kBookMagic) return BookStatus::kForeign;
  if (status.st_size < static_cast<off_t>(sizeof(BookLayout))) return BookStatus::kTruncated;
  bool at_one_moment = false;
  for (int times = 0; times < kReadings && !at_one_moment; ++times)
    if (const BookStatus loaded = load_once(file_.get(), image, at_one_moment); loaded != BookStatus::kOk)
      return loaded;

  BookSnapshot snapshot;
  copy_header(layout.header, snapshot);
  copy_accounts(layout, snapshot);
  copy_host(layout.host, snapshot);
  for (std::uint32_t index = 0; index < slots_in_use(layout); ++index) {
    if (!is_used(layout.slots[index])) continue;
    snapshot.processes.push_back(process_from(layout, index));
  }
  copy_shared(layout, snapshot);
  if (snapshot.denial_count != denials_known || !unfinished_.empty()) {
    if (!image.load(file_.get(), offsetof(BookLayout, denials), sizeof layout.denials)) return BookStatus::kTruncated;
    const std::uint64_t overwritten =
        snapshot.denial_count - std::min(snapshot.denial_count, std::uint64_t{kDenialRing});
    // A denial is counted before its entry is written. So the reader keeps the numbers of unwritten entries for its
    // next readings, until the entry or a later one in its place is written. A hostile process may set the count back,
    // so the reader drops numbers above the count, and keeps no more numbers than the ring has entries.
    std::set<std::uint64_t> wanted(unfinished_.upper_bound(overwritten),
                                   unfinished_.upper_bound(snapshot.denial_count));
    for (std::uint64_t number = std::max(denials_known, overwritten); number < snapshot.denial_count;)
      wanted.insert(wanted.end(), ++number);
    for (const DenialRecord& record : layout.denials) {
      if (wanted.erase(plain(record.sequence)) != 0 &&
          (record.account <= kMaxAccounts || record.account == kHostAccount))
        snapshot.denials.push_back(denial_from(record));
    }
    unfinished_ = std::move(wanted);
    std::sort(snapshot.denials.begin(), snapshot.denials.end(),
              [](const Denial& left, const Denial& right) { return left.sequence < right.sequence; });
  }
  if (!is_plausible(snapshot)) return BookStatus::kDamaged;
  out = std::move(snapshot);
  return BookStatus::kOk;
}

BookStatus Book::read(const char* path, BookSnapshot& out) {
  BookReader reader;
  const BookStatus status = BookReader::open(path, reader);
  return status == BookStatus::kOk ? reader.read(out) : status;
}

std::optional<Bytes> used_now(int descriptor, std::uint32_t account) {
  std::uint64_t usage = 0;
  const std::size_t offset =
      offsetof(BookLayout, accounts) + account * sizeof(AccountRecord) + offsetof(AccountRecord, usage);
  if (account >= kMaxAccounts || !read_whole(descriptor, reinterpret_cast<std::byte*>(&usage), offset, sizeof usage))
    return std::nullopt;
  return Bytes{used_bytes(usage)};
}

}  // namespace ration::book
