// A lock for sections of a few dozen nanoseconds that now and then, when a driver has to be called, last far longer.
// One atomic exchange to take it and a plain store to give it back: half the cost of an uncontended mutex; nothing in a
// program of one thread.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>

/// glibc's flag for a process of one thread: since 2.32, so absent on older ones.
extern "C" [[gnu::weak]] char __libc_single_threaded;

namespace ration::pool {

/// Meets BasicLockable.
class BriefLock {
 public:
  void lock() noexcept {
    if (&__libc_single_threaded != nullptr && __libc_single_threaded != 0) {  // no other thread can have it
      held_.store(true, std::memory_order_relaxed);
      return;
    }
    if (!held_.exchange(true, std::memory_order_acquire)) [[likely]]
      return;
    wait();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  // Waits. A holder that is not back after a few turns is inside the driver, or has lost its processor.
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
