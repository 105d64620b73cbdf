#include "book/store_limits.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <mutex>
#include <string>

#include "base/byte_lock.hpp"
#include "base/file.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

constexpr std::size_t kMapped =
    2 * std::size_t{4096};  // the header, the accounts, the grants and the record of the host
static_assert(offsetof(BookLayout, host) + sizeof(BookLayout::host) <= kMapped);

// An access to a page beyond the end of a truncated file raises SIGBUS. While a book is being written, such a page is
// replaced by an empty one and the write counts as failed; any other SIGBUS is a bug elsewhere and ends the process.
std::atomic<std::byte*> guarded{nullptr};
std::atomic<bool> cut_short{false};
std::mutex one_at_a_time;
std::once_flag installed;

void replace_page(int signal, siginfo_t* what, void*) {
  std::byte* const start = guarded.load();
  auto* const address = static_cast<std::byte*>(what->si_addr);
  if (start == nullptr || address < start || address >= start + kMapped) {
    ::signal(signal, SIG_DFL);
    return;
  }
  cut_short.store(true);
  ::mmap(start, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void install_guard() {
  struct sigaction action {};
  action.sa_sigaction = replace_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void wake_waiters(BookHeader& header) {
  if (header.waiters.load() == 0) return;
  header.generation.fetch_add(1);
  ::syscall(SYS_futex, &header.generation, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

/// Calls `change` with the mapped book, safe against anything that the book's owner does to the file meanwhile.
template <typename Change>
BookStatus change_book(int book, std::uint32_t owner, const Change& change) {
  const std::lock_guard alone(one_at_a_time);
  std::call_once(installed, install_guard);

  // Opens the same file again for writing. The path of the book may name another file by now.
  const std::string path = "/proc/self/fd/" + std::to_string(book);
  const FileDescriptor file{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return status_of(errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != owner)
    return BookStatus::kForeign;
  void* const start = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (start == MAP_FAILED) return BookStatus::kSystem;
  const Mapping mapping{start, kMapped};

  cut_short.store(false);
  guarded.store(static_cast<std::byte*>(start));
  auto& layout = *static_cast<BookLayout*>(start);
  const bool sound = layout.header.magic == kBookMagic && layout.header.version == kBookVersion &&
                     layout.header.account_count <= kMaxAccounts;
  if (sound) change(layout);
  guarded.store(nullptr);
  if (cut_short.load()) return BookStatus::kTruncated;
  return sound ? BookStatus::kOk : BookStatus::kDamaged;
}

}  // namespace

BookStatus store_limits(int book, std::uint32_t owner, const std::vector<LimitChange>& changes,
                        std::optional<Bytes> host_limit) {
  const bool kept = share_byte(book, kDaemonByte);
  return change_book(book, owner, [&](BookLayout& layout) {
    for (const LimitChange& change : changes) {
      if (change.account >= layout.header.account_count) continue;
      AccountRecord& account = layout.accounts[change.account];
      if (change.guarantee) account.guarantee.store(change.guarantee->count());
      layout.header.ceiling[change.account].store(change.ceiling.count());
      layout.grants.granted[change.account].store(change.granted.count());
      layout.grants.reach[change.account].store(kept ? change.reach.count() : 0);
      if (change.limit) account.limit.store(change.limit->count());
    }
    if (host_limit && layout.host.counted.load() != 0) layout.host.limit.store(host_limit->count());
    layout.header.limit_changes.fetch_add(1);
    wake_waiters(layout.header);
  });
}

BookStatus store_unrequested(int book, std::uint32_t owner, std::uint32_t account, const AccountSnapshot& read,
                             Bytes found) {
  return change_book(book, owner, [&](BookLayout& layout) {
    if (account >= layout.header.account_count) return;
    std::uint64_t seen = unrequested_word(read.unrequested.count(), read.times_emptied);
    const std::uint64_t mine = unrequested_word(found.count(), read.times_emptied);
    if (!layout.header.unrequested[account].compare_exchange_strong(seen, mine)) return;
    Word& peak = layout.accounts[account].peak;
    const std::uint64_t together = (read.used + found).count();
    for (std::uint64_t known = peak.load(); known < together && !peak.compare_exchange_weak(known, together);) {
    }
    wake_waiters(layout.header);
  });
}

bool cut_to_size(int book, std::uint32_t owner) {
  const FileDescriptor file{::open(("/proc/self/fd/" + std::to_string(book)).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  return file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == owner &&
         ::ftruncate(file.get(), sizeof(BookLayout)) == 0;
}

BookStatus request_trim(int book, std::uint32_t owner) {
  return change_book(book, owner, [](BookLayout& layout) { layout.header.trim_requests.fetch_add(1); });
}

}  // namespace ration::book
