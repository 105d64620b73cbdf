#include "book/book.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

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
  // A new file is all zeros, and so is a new BookLayout; writing these zeros would fault in every page.
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
    layout->grants.granted[i].store(from.limit.count(), kRelaxed);
    header.own_limit[i].store(kUnlimited.count(), kRelaxed);
  }
  layout->host.counted.store(1, kRelaxed);
  layout->host.limit.store(contents.host_limit.count(), kRelaxed);
  layout->host.own_limit.store(kUnlimited.count(), kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  header.magic = kBookMagic;  // written last, because every program rejects a book without the magic number
  return BookStatus::kOk;
}

}  // namespace

// Makes the book under another name and renames it once it is complete, so that a process killed meanwhile leaves
// nothing that looks like a book.
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
  if (std::strlen(path) >= sizeof out.opened_.path) return BookStatus::kMissing;
  void* address = ::mmap(nullptr, sizeof(BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return status_of(errno);
  Mapping mapping{address, sizeof(BookLayout)};
  auto* layout = static_cast<BookLayout*>(address);
  if (const BookStatus status = check(layout->header); status != BookStatus::kOk) return status;
  OpenBook& opened = out.opened_;
  opened.mapping = std::move(mapping);
  opened.layout = layout;
  opened.account_count = layout->header.account_count;
  opened.counts_host = layout->host.counted.load(kRelaxed) != 0;
  opened.slot = kNoSlot;
  copy_text(opened.path, path);
  opened.inode = identity.st_ino;
  opened.device = identity.st_dev;
  return BookStatus::kOk;
}

Book::Settings Book::settings() const noexcept {
  const BookHeader& header = opened_.layout->header;
  return {static_cast<OnDeny>(header.on_deny), header.wait_ns, static_cast<AccountMode>(header.account_mode),
          static_cast<ManagedPolicy>(header.managed)};
}

std::string_view Book::name() const noexcept {
  return {opened_.layout->header.name, ::strnlen(opened_.layout->header.name, sizeof opened_.layout->header.name)};
}

std::string_view Book::command() const noexcept {
  const BookHeader& header = opened_.layout->header;
  return {header.command, ::strnlen(header.command, sizeof header.command)};
}

std::uint32_t Book::find_account(const DeviceUuid& device) const noexcept {
  std::uint32_t index = 0;
  while (index < opened_.account_count && opened_.layout->accounts[index].device_uuid != device) ++index;
  return index;
}

std::uint64_t Book::limit_changes() const noexcept {
  return is_open() ? opened_.layout->header.limit_changes.load(kRelaxed) : 0;
}

std::uint64_t Book::trim_requests() const noexcept { return opened_.layout->header.trim_requests.load(kRelaxed); }

void Book::mark_ended(std::int32_t exit_status) noexcept {
  opened_.layout->header.exit_status.store(exit_status, kRelaxed);
  opened_.layout->header.ended_ns.store(unix_time_ns(), std::memory_order_release);
}

}  // namespace ration::book
