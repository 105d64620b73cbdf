#include "ledger/book.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "ledger/layout.hpp"

namespace ration::ledger {
namespace {

template <std::size_t N>
void copy_text(char (&target)[N], const char* source) noexcept {
  const std::size_t length = ::strnlen(source, N - 1);
  std::memcpy(target, source, length);
  target[length] = '\0';
}

/// Claims an entry of a ring for number `sequence`. False: so many came meanwhile that this one is old.
bool begin_entry(Word& place, std::uint64_t sequence) noexcept {
  std::uint64_t seen = place.load(std::memory_order_acquire);
  do {
    if ((seen & ~kBeingWritten) > sequence) return false;
  } while (!place.compare_exchange_weak(seen, kBeingWritten | sequence));
  return true;
}

void finish_entry(Word& place, std::uint64_t sequence) noexcept {
  std::uint64_t mine = kBeingWritten | sequence;
  place.compare_exchange_strong(mine, sequence);
}

bool make_lock(pthread_mutex_t& lock) noexcept {
  pthread_mutexattr_t attributes;
  if (::pthread_mutexattr_init(&attributes) != 0) return false;
  const bool made = ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
                    ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
                    ::pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK) == 0 &&
                    ::pthread_mutex_init(&lock, &attributes) == 0;
  ::pthread_mutexattr_destroy(&attributes);
  return made;
}

}  // namespace

// -------------------------------------------------------------------------------------------------------- waiting

bool Book::somebody_waits() const noexcept { return layout_->header.waiters.load(kRelaxed) > 0; }
std::uint64_t Book::trim_requests() const noexcept { return layout_->header.trim_requests.load(kRelaxed); }
std::uint64_t Book::denial_count() const noexcept { return layout_->header.denial_count.load(kRelaxed); }
std::uint32_t Book::generation() const noexcept { return layout_->header.generation.load(std::memory_order_seq_cst); }

Bytes Book::ceiling(std::uint32_t account) const noexcept {
  if (account >= account_count_) return {};
  return std::min(std::max(given_limit(account), Bytes{layout_->header.ceiling[account].load(kRelaxed)}),
                  own_limit(account));
}

void Book::begin_waiting(std::uint32_t account, Bytes wanted) noexcept {
  if (own_ == nullptr) return;
  if (account < account_count_) {
    Word& largest = layout_->header.wanted[account];
    std::uint64_t seen = largest.load(kRelaxed);
    while (seen < wanted.count() && !largest.compare_exchange_weak(seen, wanted.count())) {
    }
  }
  own_->waiting.fetch_add(1);
  layout_->header.waiters.fetch_add(1);
}

void Book::end_waiting() noexcept {
  if (own_ == nullptr) return;
  std::atomic<std::uint32_t>& waiters = layout_->header.waiters;
  std::uint32_t counted = waiters.load();
  while (counted > 0 && !waiters.compare_exchange_weak(counted, counted - 1)) {
  }
  own_->waiting.fetch_sub(1);
  if (counted <= 1) {
    for (Word& wanted : layout_->header.wanted) wanted.store(0, kRelaxed);
  }
}

void Book::count_granted_wait() noexcept { layout_->header.granted_waits.fetch_add(1); }

void Book::wait_for_change(std::uint32_t seen, std::uint64_t timeout_ns) noexcept {
  BookHeader& header = layout_->header;
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000U),
                         static_cast<long>(timeout_ns % 1'000'000'000U)};
  ::syscall(SYS_futex, &header.generation, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void Book::wake_waiters() noexcept {
  BookHeader& header = layout_->header;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (header.waiters.load(kRelaxed) == 0) [[likely]]
    return;
  header.generation.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &header.generation, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

// -------------------------------------------------------------------------------------------------------- denials

std::uint64_t Book::record_denial(std::uint32_t account, Bytes requested, DenialReason reason, const char* function,
                                  std::uint64_t device_free, std::uint64_t waited_ns, const DeviceUuid& device,
                                  const std::optional<Amount>& instead) noexcept {
  if (layout_ == nullptr) return 0;
  const std::uint64_t sequence = layout_->header.denial_count.fetch_add(1) + 1;
  AccountRecord* entry = account < account_count_ ? &layout_->accounts[account] : nullptr;
  if (entry != nullptr) entry->denials.fetch_add(1, kRelaxed);
  DenialRecord& record = layout_->denials[(sequence - 1) % kDenialRing];
  if (!begin_entry(record.sequence, sequence)) return sequence;
  record.time_ns = unix_time_ns();
  record.requested = requested.count();
  record.device_free = device_free;
  record.pid = ::getpid();
  record.account = static_cast<std::uint16_t>(account);
  record.reason = static_cast<std::uint16_t>(reason);
  record.waited_ns = waited_ns;
  const Amount own{entry != nullptr ? used(account) + unrequested(account) : Bytes{0}, limit(account)};
  record.used = instead.value_or(own).used.count();
  record.limit = instead.value_or(own).limit.count();
  record.device_uuid = entry != nullptr ? entry->device_uuid : device;
  copy_text(record.function, function);
  finish_entry(record.sequence, sequence);
  return sequence;
}

void Book::note_unlisted(const char* name) noexcept {
  if (layout_ == nullptr) return;
  BookHeader& header = layout_->header;
  for (const UnlistedRecord& known : header.unlisted) {
    if (std::strncmp(known.name, name, sizeof known.name - 1) == 0) return;
  }
  const std::uint64_t sequence = header.unlisted_count.fetch_add(1) + 1;
  UnlistedRecord& record = header.unlisted[(sequence - 1) % kUnlistedRing];
  if (!begin_entry(record.sequence, sequence)) return;
  copy_text(record.name, name);
  finish_entry(record.sequence, sequence);
}

// --------------------------------------------------------------------------------------------- limits and questions

void Book::set_limit(std::uint32_t account, Bytes limit) noexcept {
  if (account >= account_count_) return;
  layout_->accounts[account].limit.store(limit.count(), std::memory_order_seq_cst);
  layout_->header.limit_changes.fetch_add(1, kRelaxed);
  wake_waiters();
}

void Book::set_own_limit(std::uint32_t account, Bytes limit) noexcept {
  if (account >= account_count_) return;
  layout_->header.own_limit[account].store(limit.count(), std::memory_order_seq_cst);
  wake_waiters();
}

void Book::set_guarantee(std::uint32_t account, Bytes guarantee) noexcept {
  if (account < account_count_) layout_->accounts[account].guarantee.store(guarantee.count(), kRelaxed);
}

void Book::mark_ended(std::int32_t exit_status) noexcept {
  layout_->header.exit_status.store(exit_status, kRelaxed);
  layout_->header.ended_ns.store(unix_time_ns(), std::memory_order_release);
}

Bytes Book::limit(std::uint32_t account) const noexcept { return std::min(given_limit(account), own_limit(account)); }

Bytes Book::own_limit(std::uint32_t account) const noexcept {
  return account < account_count_ ? Bytes{layout_->header.own_limit[account].load(kRelaxed)} : Bytes{0};
}

Bytes Book::given_limit(std::uint32_t account) const noexcept {
  return account < account_count_ ? Bytes{layout_->accounts[account].limit.load(kRelaxed)} : Bytes{0};
}

Bytes Book::device_total(std::uint32_t account) const noexcept {
  return account < account_count_ ? Bytes{layout_->accounts[account].device_total.load(kRelaxed)} : Bytes{0};
}

DeviceUuid Book::device(std::uint32_t account) const noexcept {
  return account < account_count_ ? layout_->accounts[account].device_uuid : DeviceUuid{};
}

std::string Book::name() const {
  return {layout_->header.name, ::strnlen(layout_->header.name, sizeof layout_->header.name)};
}

Bytes Book::context_estimate(std::uint32_t account) const noexcept {
  return account < account_count_ ? Bytes{layout_->accounts[account].context_estimate.load(kRelaxed)} : Bytes{0};
}

Bytes Book::used(std::uint32_t account) const noexcept {
  return account < account_count_ ? Bytes{used_bytes(layout_->accounts[account].usage.load(kRelaxed))} : Bytes{0};
}

Bytes Book::peak(std::uint32_t account) const noexcept {
  return account < account_count_ ? Bytes{layout_->accounts[account].peak.load(kRelaxed)} : Bytes{0};
}

Bytes Book::unrequested(std::uint32_t account) const noexcept {
  if (account >= account_count_) return Bytes{0};
  return Bytes{unrequested_bytes(layout_->header.unrequested[account].load(kRelaxed))};
}

Bytes Book::held_by_this_process(std::uint32_t account) const noexcept {
  if (account >= account_count_ || own_ == nullptr) return Bytes{0};
  return Bytes{own_->parts[account].held.load(kRelaxed)};
}

Bytes Book::headroom(std::uint32_t account) const noexcept {
  const Bytes most = limit(account);
  const Bytes now = used(account) + unrequested(account);
  return now < most ? most - now : Bytes{0};
}

OnDeny Book::on_deny() const noexcept { return static_cast<OnDeny>(layout_->header.on_deny); }
std::uint64_t Book::wait_ns() const noexcept { return layout_->header.wait_ns; }
AccountMode Book::account_mode() const noexcept { return static_cast<AccountMode>(layout_->header.account_mode); }
ManagedPolicy Book::managed() const noexcept { return static_cast<ManagedPolicy>(layout_->header.managed); }

std::uint32_t Book::find_account(const DeviceUuid& device) const noexcept {
  std::uint32_t account = 0;
  while (account < account_count_ && layout_->accounts[account].device_uuid != device) ++account;
  return account;
}

// ------------------------------------------------------------------------------------------------------ open, create

namespace {

BookStatus status_of(int error) noexcept {
  switch (error) {
    case ENOENT:
      return BookStatus::kMissing;
    case EACCES:
    case EPERM:
    case EROFS:
      return BookStatus::kNotPermitted;
    case ENOSPC:
    case EDQUOT:
      return BookStatus::kNoSpace;
    default:
      return BookStatus::kSystem;
  }
}

BookStatus check_size(int descriptor) noexcept {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return status_of(errno);
  if (!S_ISREG(status.st_mode)) return BookStatus::kForeign;
  std::uint64_t magic = 0;
  if (::pread(descriptor, &magic, sizeof magic, 0) != sizeof magic || magic != kBookMagic) {
    return status.st_size < static_cast<off_t>(sizeof magic) ? BookStatus::kTruncated : BookStatus::kForeign;
  }
  return status.st_size < static_cast<off_t>(sizeof(BookLayout)) ? BookStatus::kTruncated : BookStatus::kOk;
}

}  // namespace

BookStatus check(const BookHeader& header) noexcept {
  if (header.magic != kBookMagic) return BookStatus::kForeign;
  if (header.version != kBookVersion) return BookStatus::kOtherVersion;
  if (header.header_size != sizeof(BookHeader) || header.file_size != sizeof(BookLayout)) return BookStatus::kDamaged;
  if (header.account_count > kMaxAccounts) return BookStatus::kDamaged;
  if (header.on_deny > 1 || header.account_mode > 1 || header.managed > 2) return BookStatus::kDamaged;
  return BookStatus::kOk;
}

namespace {

BookStatus fill(const std::string& path, const NewBook& contents) noexcept {
  const FileDescriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) return status_of(errno);
  if (const int error = ::posix_fallocate(file.get(), 0, sizeof(BookLayout)); error != 0) return status_of(error);
  void* address = ::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return status_of(errno);
  const Mapping mapping{address, sizeof(BookLayout)};
  // A fresh file is zeros, and so is a fresh BookLayout: to write them would fault each of its pages in.
  auto* layout = static_cast<BookLayout*>(address);
  BookHeader& header = layout->header;
  if (!make_lock(layout->shared.lock)) return BookStatus::kSystem;
  layout->slots[kCommonSlot].state.store(state_word(0, SlotLife::kUsed), kRelaxed);
  header.version = kBookVersion;
  header.header_size = sizeof(BookHeader);
  header.file_size = sizeof(BookLayout);
  header.run_number = contents.run_number;
  header.created_ns = unix_time_ns();
  const ProcessIdentity creator = contents.creator.value_or(current_process());
  header.creator_pid = creator.pid;
  header.creator_user = creator.user;
  header.creator_start_time = creator.start_time;
  header.creator_pid_namespace = creator.pid_namespace;
  header.account_count = static_cast<std::uint32_t>(contents.accounts.size());
  header.on_deny = static_cast<std::uint32_t>(contents.on_deny);
  header.account_mode = static_cast<std::uint32_t>(contents.account_mode);
  header.managed = static_cast<std::uint32_t>(contents.managed);
  header.wait_ns = contents.wait_ns;
  copy_text(header.name, contents.name.c_str());
  copy_text(header.tenant, contents.tenant.c_str());
  copy_text(header.slice, contents.slice.c_str());
  copy_text(header.labels, contents.labels.c_str());
  copy_text(header.command, contents.command.c_str());
  copy_text(header.simulation, contents.simulation.c_str());
  for (std::size_t i = 0; i < contents.accounts.size(); ++i) {
    const NewAccount& from = contents.accounts[i];
    AccountRecord& to = layout->accounts[i];
    to.device_uuid = from.device;
    copy_text(to.device_name, from.device_name.c_str());
    to.context_estimate.store(from.context_estimate.count(), kRelaxed);
    to.device_total.store(from.device_total.count(), kRelaxed);
    to.limit.store(from.limit.count(), kRelaxed);
    to.guarantee.store(from.guarantee.count(), kRelaxed);
    header.own_limit[i].store(kUnlimited.count(), kRelaxed);
  }
  std::atomic_thread_fence(std::memory_order_release);
  header.magic = kBookMagic;  // last: a book that is not finished is foreign to everyone
  return BookStatus::kOk;
}

}  // namespace

// Under another name until it is whole: whoever is killed meanwhile leaves nothing that is taken for a book.
BookStatus Book::create(const char* path, const NewBook& contents) noexcept {
  if (contents.accounts.size() > kMaxAccounts) return BookStatus::kTooManyDevices;
  if (::access(path, F_OK) == 0) return BookStatus::kSystem;
  const std::string unfinished = std::string(path) + kUnfinished;
  ::unlink(unfinished.c_str());
  BookStatus status = fill(unfinished, contents);
  if (status == BookStatus::kOk && ::rename(unfinished.c_str(), path) != 0) status = status_of(errno);
  if (status != BookStatus::kOk) ::unlink(unfinished.c_str());
  return status;
}

BookStatus Book::open(const char* path, Book& out) noexcept {
  const FileDescriptor file{::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) return status_of(errno);
  if (const BookStatus status = check_size(file.get()); status != BookStatus::kOk) return status;
  struct stat identity {};
  if (::fstat(file.get(), &identity) != 0) return status_of(errno);
  if (std::strlen(path) >= sizeof out.path_) return BookStatus::kMissing;
  void* address = ::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return status_of(errno);
  Mapping mapping{address, sizeof(BookLayout)};
  auto* layout = static_cast<BookLayout*>(address);
  if (const BookStatus status = check(layout->header); status != BookStatus::kOk) return status;
  out.mapping_ = std::move(mapping);
  out.layout_ = layout;
  out.account_count_ = layout->header.account_count;
  out.slot_ = kNoSlot;
  copy_text(out.path_, path);
  out.inode_ = identity.st_ino;
  out.device_ = identity.st_dev;
  return BookStatus::kOk;
}

const char* describe(BookStatus status) noexcept {
  switch (status) {
    case BookStatus::kOk:
      return "the book is sound";
    case BookStatus::kMissing:
      return "there is no such book";
    case BookStatus::kNotPermitted:
      return "the book may not be opened for writing by this user";
    case BookStatus::kTruncated:
      return "the book is shorter than its format says";
    case BookStatus::kForeign:
      return "the file is not a book of ration";
    case BookStatus::kOtherVersion:
      return "the book was written by another version of ration";
    case BookStatus::kDamaged:
      return "the book's fields contradict each other";
    case BookStatus::kNoSpace:
      return "there is no space left for the book";
    case BookStatus::kTooManyDevices:
      return "a workload can have at most 16 devices";
    case BookStatus::kSystem:
      return "the system did not allow it";
  }
  return "unknown";
}

}  // namespace ration::ledger
