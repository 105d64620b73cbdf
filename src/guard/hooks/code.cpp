#include "guard/hooks/code.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/file.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

/// The code of one context. Whenever the table's lock is free, `charged` is at least `bytes` in whole granules.
struct Code {
  std::uint64_t bytes = 0, charged = 0;
  std::uint32_t account = kNoAccount;
};
Table<Code> contexts;  // the key is the number of the context

struct Lock {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
};
Lock growing;  // held for a charge that does not wait, so that two loads share a granule that has room for both
Lock waiting[kMaxDevices];  // one per account, held for a charge that may wait; its next holder first looks for room

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) noexcept : lock_(lock) { ::pthread_mutex_lock(&lock.mutex); }
  ~LockGuard() { ::pthread_mutex_unlock(&lock_.mutex); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

bool lock_for_a_moment(Lock& lock) noexcept {
  constexpr long kMomentNs = 50'000'000, kSecondNs = 1'000'000'000;
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kMomentNs;
  until.tv_sec += until.tv_nsec / kSecondNs;
  until.tv_nsec %= kSecondNs;
  return ::pthread_mutex_timedlock(&lock.mutex, &until) == 0;
}

struct Unlock {
  Lock& lock;
  ~Unlock() { ::pthread_mutex_unlock(&lock.mutex); }
};

thread_local bool has_grown;  // true if this thread's last charge of code added granules

Bytes granules(std::uint64_t bytes) noexcept { return round_up(Bytes{bytes}, kGranule); }

enum class Entry { kEntered, kNeedsMore, kNoTable };

/// Enters `size` bytes of code if the charged granules, with `deposit` added, have room. Sets `needed` to the bytes
/// that are missing, or `surplus` to the charged bytes that the code does not need.
Entry enter(const Place& place, Bytes size, Bytes deposit, Bytes& needed, Bytes& surplus) noexcept {
  Entry result = Entry::kNoTable;
  contexts.update(place.context, [&](Code& code) {
    code.account = place.account;
    code.charged += deposit.count();
    const Bytes wanted = granules(code.bytes + size.count());
    result = wanted.count() <= code.charged ? Entry::kEntered : Entry::kNeedsMore;
    if (result == Entry::kEntered)
      code.bytes += size.count();
    else
      needed = wanted - Bytes{code.charged};
    const Bytes kept = granules(code.bytes);
    if (result == Entry::kEntered && code.charged > kept.count()) {
      surplus = Bytes{code.charged} - kept;
      code.charged = kept.count();
    }
    return code.charged > 0;
  });
  return result;
}

/// Enters like enter(), but charges the missing bytes if they fit at once.
Entry grow_at_once(const Place& place, Bytes size, Bytes deposit, Bytes& needed) noexcept {
  const LockGuard guard(growing);
  Bytes surplus;
  Entry result = enter(place, size, deposit, needed, surplus);
  if (result == Entry::kNoTable) give_back(place.account, deposit);
  if (result == Entry::kNeedsMore && admit_quietly(place.account, needed, Kind::kHeap)) {
    const Bytes more = needed;
    has_grown = true;
    result = enter(place, size, more, needed, surplus);
    if (result == Entry::kNoTable) give_back(place.account, more);
  }
  give_back(place.account, surplus);
  return result;
}

/// Removes `size` bytes of code. Returns the bytes of the granules that no code needs any more, and sets `account`.
Bytes leave(std::uint64_t context, Bytes size, std::uint32_t& account) noexcept {
  Bytes surplus;
  contexts.update(context, [&](Code& code) {
    if (code.charged == 0) return false;  // the code ended with its context
    account = code.account;
    code.bytes -= std::min(size.count(), code.bytes);
    const Bytes kept = granules(code.bytes);
    if (code.charged > kept.count()) {
      surplus = Bytes{code.charged} - kept;
      code.charged = kept.count();
    }
    return code.charged > 0;
  });
  return surplus;
}

/// A reader of the program's own memory. It reads a page at a time, because each read is a system call. Reading memory
/// that does not exist returns false.
class MemoryReader {
 public:
  bool operator()(std::uint64_t at, void* out, std::size_t size) noexcept {
    auto* to = static_cast<char*>(out);
    while (size > 0) {
      const Page* page = find(at / kPageSize);
      if (page == nullptr) return false;
      const std::size_t offset = at % kPageSize, part = std::min(size, kPageSize - offset);
      std::memcpy(to, page->bytes + offset, part);
      to += part, at += part, size -= part;
    }
    return true;
  }

 private:
  static constexpr std::size_t kPageSize = 4096;
  struct Page {
    std::uint64_t number = ~std::uint64_t{0};
    char bytes[kPageSize];
  };

  const Page* find(std::uint64_t number) noexcept {
    for (const Page& page : pages_) {
      if (page.number == number) return &page;
    }
    Page& page = pages_[next_ ^= 1];
    page.number = ~std::uint64_t{0};
    auto* const address = reinterpret_cast<char*>(number * kPageSize);
    const iovec to{page.bytes, kPageSize}, from{address, kPageSize};
    const ssize_t got = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
    if (got < 0 && (errno == EPERM || errno == ENOSYS))
      std::memcpy(page.bytes, address,
                  kPageSize);  // the container forbids the system call, so this reads directly, as the driver would
    else if (got != static_cast<ssize_t>(kPageSize))
      return nullptr;
    page.number = number;
    return &page;
  }

  Page pages_[2];  // for section headers and for their names
  unsigned next_ = 0;
};

}  // namespace

namespace {

bool charge_more_code(const Place& place, Bytes size, const char* function) noexcept {
  if (place.account == kNoAccount) return admit(place.account, size, Kind::kHeap, function);
  Bytes needed;
  Entry entry = grow_at_once(place, size, Bytes{0}, needed);
  if (entry != Entry::kNeedsMore) return entry == Entry::kEntered;
  Lock& lock = waiting[place.account % kMaxDevices];
  // The holder of the lock may sleep for a long time. So this thread tries again and again to enter its request without
  // the lock.
  while (!lock_for_a_moment(lock)) {
    entry = grow_at_once(place, size, Bytes{0}, needed);
    if (entry != Entry::kNeedsMore) return entry == Entry::kEntered;
  }
  const Unlock unlock{lock};
  do {
    entry = grow_at_once(place, size, Bytes{0}, needed);
    if (entry == Entry::kNeedsMore) {
      const bool admitted = admit(place.account, needed, Kind::kHeap, function);
      has_grown = has_grown || admitted;
      // Another thread may have made room since the denial.
      entry = grow_at_once(place, size, admitted ? needed : Bytes{0}, needed);
      if (!admitted) break;
    }
  } while (entry == Entry::kNeedsMore);
  return entry == Entry::kEntered;
}

}  // namespace

bool charge_code(const Place& place, Bytes size, const char* function) noexcept {
  has_grown = false;
  if (size == Bytes{0}) return true;
  Recorded event(trace::Kind::kCode, size.count());
  const bool entered = charge_more_code(place, size, function);
  if (entered) event.done(place.context, place.account);
  return entered;
}

void charge_code_unconditionally(const Place& place, Bytes size) noexcept {
  if (size == Bytes{0} || place.account == kNoAccount) return;
  const LockGuard guard(growing);
  Bytes needed, surplus;
  if (enter(place, size, Bytes{0}, needed, surplus) != Entry::kNeedsMore) return;
  const Bytes more = needed;
  book().account(place.account).charge_unconditionally(more, Kind::kHeap);
  if (enter(place, size, more, needed, surplus) == Entry::kNoTable) give_back(place.account, more);
  give_back(place.account, surplus);
}

void refund_code(std::uint64_t context, Bytes size) noexcept {
  std::uint32_t account = kNoAccount;
  const Bytes surplus = leave(context, size, account);
  Recorded event(trace::Kind::kCode, size.count());
  event.done(context, account);
  give_back(account, surplus);
}

void undo_code(std::uint64_t context, Bytes size) noexcept {
  std::uint32_t account = kNoAccount;
  const Bytes surplus = leave(context, size, account);
  Recorded event(trace::Kind::kCode, size.count());
  event.done(context, account);
  if (has_grown)
    take_back(account, surplus);
  else
    give_back(account, surplus);
}

void code_of_context_is_gone(std::uint64_t context) noexcept {
  Code gone;
  if (!contexts.take(context, gone)) return;
  Recorded event(trace::Kind::kCode);
  event.done(context, gone.account);
  give_back(gone.account, Bytes{gone.charged});
}

void renumber_code(std::uint64_t handle, std::uint64_t number) noexcept {
  Code early;
  if (!contexts.take(handle, early)) return;
  const LockGuard guard(growing);
  Bytes surplus;
  bool entered = false;
  contexts.update(number, [&](Code& code) {
    code.account = early.account;
    code.bytes += early.bytes;
    code.charged += early.charged;
    const Bytes kept = granules(code.bytes);
    surplus = Bytes{code.charged} - kept;
    code.charged = kept.count();
    return entered = code.charged > 0;
  });
  give_back(early.account, entered ? surplus : Bytes{early.charged});
}

driver::Capability capability_of(cuda::CUdevice device) noexcept {
  int major = 0, minor = 0;
  auto* const ask = real<cuda::cuDeviceGetAttribute_t>(Symbol::cuDeviceGetAttribute);
  (void)ask(&major, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  (void)ask(&minor, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return static_cast<driver::Capability>(10 * major + minor);
}

driver::CodeImage image_in_memory(const void* image, driver::Capability device) noexcept {
  MemoryReader reader;
  return driver::code_image(reader, reinterpret_cast<std::uint64_t>(image), driver::image::kNoEnd, true, device);
}

driver::CodeImage image_in_file(const char* path, driver::Capability device) noexcept {
  const FileDescriptor file{::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};  // the driver rejects it
  const auto read = [&](std::uint64_t at, void* out, std::size_t size) {
    return ::pread(file.get(), out, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  };
  return driver::code_image(read, 0, static_cast<std::uint64_t>(status.st_size), false, device);
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  contexts.abandon();
  ::new (&growing) Lock;
  for (Lock& lock : waiting) ::new (&lock) Lock;
});

}  // namespace ration::guard
