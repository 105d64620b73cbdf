// A lock for sections that take a few dozen nanoseconds, and far longer if they call a driver, which is rare. One
// atomic exchange takes the lock and a plain store releases it. This costs half as much as an uncontended mutex, and
// nothing in a program of one thread.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>

/// The flag of glibc for a process of one thread. It exists since 2.32.
extern "C" [[gnu::weak]] char __libc_single_threaded;

namespace ration::pool {

/// A spinning, then sleeping lock that meets BasicLockable.
class BriefLock {
 public:
  void lock() noexcept {
    if (&__libc_single_threaded != nullptr && __libc_single_threaded != 0) {  // no other thread exists
      held_.store(true, std::memory_order_relaxed);
      return;
    }
    if (!held_.exchange(true, std::memory_order_acquire)) [[likely]]
      return;
    wait();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  // Waits. A holder that keeps the lock for more than a few turns is inside the driver or has lost its processor.
  [[gnu::noinline]] void wait() noexcept {
    for (int turn = 0;; ++turn) {
      for (int look = 0; look < 64; ++look) {
        if (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire)) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
      if (turn < 16) {
        ::sched_yield();
      } else {
        const timespec moment{0, 20'000};
        ::nanosleep(&moment, nullptr);
      }
    }
  }

  std::atomic<bool> held_{false};
};

}  // namespace ration::pool
