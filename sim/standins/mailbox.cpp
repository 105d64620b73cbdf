#include "mailbox.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "base/system_calls.hpp"

namespace ration::standin {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 45;  // takes memory only where it is written
constexpr std::uint64_t kDepth = 1024;

std::uint64_t pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

char* map(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

}  // namespace

/// The beginning of the file. A page for the processes follows, then the pairs, then the contents. Each post has a
/// place of its own in the file. The place is never reused, but its memory is given back.
struct Mailbox::Bell {
  std::atomic<std::uint32_t> rung;
  std::atomic<std::uint64_t> end;  // the place for the next contents, behind the pairs
};
/// The contents that one rank has posted for another.
struct Mailbox::Pair {
  std::atomic<std::uint64_t> posted, received;
  struct {
    std::uint64_t offset, bytes;
  } contents[kDepth];
};

std::shared_ptr<Mailbox> Mailbox::make() {
  const int descriptor = memory_file("ration-nccl");
  if (descriptor < 0) return nullptr;
  struct stat status {};
  if (::ftruncate(descriptor, static_cast<off_t>(kFileBytes)) != 0 || ::fstat(descriptor, &status) != 0) {
    ::close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<Mailbox>(new Mailbox(descriptor, {::getpid(), descriptor, status.st_ino}));
}

std::shared_ptr<Mailbox> Mailbox::open(const Address& address) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", address.process, address.descriptor);
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || status.st_ino != address.file ||
      status.st_size != static_cast<off_t>(kFileBytes)) {
    ::close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<Mailbox>(new Mailbox(descriptor, address));
}

Mailbox::~Mailbox() {
  if (bell_ != nullptr) ::munmap(bell_, 2 * kPage);
  if (pairs_ != nullptr) ::munmap(pairs_, pages(sizeof(Pair) * ranks_ * ranks_));
  ::close(descriptor_);
}

bool Mailbox::join(int rank, int ranks) {
  if (ranks < 1 || static_cast<std::size_t>(ranks) > kPage / sizeof *processes_) return false;
  const std::uint64_t table = pages(sizeof(Pair) * ranks * ranks);
  char* head = map(descriptor_, 0, 2 * kPage);
  char* pairs = map(descriptor_, 2 * kPage, table);
  if (head == nullptr || pairs == nullptr) {
    if (head != nullptr) ::munmap(head, 2 * kPage);
    return false;
  }
  ranks_ = ranks;
  bell_ = reinterpret_cast<Bell*>(head);
  processes_ = reinterpret_cast<std::atomic<std::int32_t>*>(head + kPage);
  pairs_ = reinterpret_cast<Pair*>(pairs);
  std::uint64_t none = 0;
  bell_->end.compare_exchange_strong(none, 2 * kPage + table);
  processes_[rank].store(::getpid());
  ring();
  return true;
}

void Mailbox::ring() {
  bell_->rung.fetch_add(1);
  ::syscall(SYS_futex, &bell_->rung, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

Mailbox::Pair& Mailbox::pair(int from, int to) const { return pairs_[from * ranks_ + to]; }

/// Returns true if the rank's process has ended, even if it was not reaped yet.
bool Mailbox::has_ended(int rank) const {
  const std::int32_t process = processes_[rank].load();
  if (process == 0 || process == ::getpid()) return false;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) return errno == ESRCH;
  pollfd ended{descriptor, POLLIN, 0};
  const bool result = ::poll(&ended, 1, 0) == 1;
  ::close(descriptor);
  return result;
}

/// Waits until `holds()`. Returns false if `stop` became true, or if the rank has ended and `holds()` is still false.
/// Checks ten times a second whether the rank has ended, since a death rings no bell.
template <typename Condition>
bool Mailbox::wait_until(Condition&& holds, int rank, const std::atomic<bool>& stop) {
  for (bool ended = false;;) {
    const std::uint32_t rung = bell_->rung.load();
    if (holds()) return true;
    if (stop.load() || ended) return false;
    const timespec patience{0, 100'000'000};
    if (::syscall(SYS_futex, &bell_->rung, FUTEX_WAIT, rung, &patience, nullptr, 0) != 0 && errno == ETIMEDOUT)
      ended = rank >= 0 && has_ended(rank);  // the loop checks again for contents that the rank posted before it ended
  }
}

bool Mailbox::wait_for_all(const std::atomic<bool>& stop) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!wait_until([&] { return processes_[rank].load() != 0; }, -1, stop)) return false;
  }
  return true;
}

bool Mailbox::post(int from, int to, std::size_t bytes, const std::function<void(void*)>& fill,
                   const std::atomic<bool>& stop) {
  Pair& way = pair(from, to);
  const std::uint64_t number = way.posted.load();
  if (!wait_until([&] { return number - way.received.load() < kDepth; }, to, stop)) return false;
  std::uint64_t offset = 0;
  if (bytes > 0) {
    offset = bell_->end.fetch_add(pages(bytes));
    char* contents = map(descriptor_, offset, bytes);
    if (contents == nullptr) return false;
    fill(contents);
    ::munmap(contents, bytes);
  }
  way.contents[number % kDepth] = {offset, bytes};
  way.posted.store(number + 1);
  ring();
  return true;
}

bool Mailbox::receive(int from, int to, const std::function<void(const void*, std::size_t)>& use,
                      const std::atomic<bool>& stop) {
  Pair& way = pair(from, to);
  const std::uint64_t number = way.received.load();
  if (!wait_until([&] { return way.posted.load() > number; }, from, stop)) return false;
  const auto [offset, bytes] = way.contents[number % kDepth];
  if (bytes > 0) {
    char* contents = map(descriptor_, offset, bytes);
    if (contents == nullptr) return false;
    use(contents, bytes);
    ::munmap(contents, bytes);
    ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(pages(bytes)));
  }
  way.received.store(number + 1);
  ring();
  return true;
}

}  // namespace ration::standin
