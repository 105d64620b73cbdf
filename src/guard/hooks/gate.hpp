// A lock that many threads hold at once, or one thread alone. Used where the guard predicts what a driver call takes
// from the calls that it has entered so far: no other thread may then have made a call that it has not entered yet.
// Passing costs two plain stores; being alone is expensive, because the kernel puts a memory barrier into every thread
// (membarrier(2)).
#pragma once

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "guard/hooks/table.hpp"

namespace ration::guard {

/// The lock. Thread-safe. A thread must not stay inside much longer than a driver call takes, and must not enter a
/// second time while it is inside.
class Gate {
  struct alignas(64) Lane {
    std::atomic<std::uint32_t> inside{0};
  };

 public:
  /// A scope in which the calling thread is inside, perhaps together with other threads.
  class Pass {
   public:
    explicit Pass(Gate& gate) noexcept : lane_(gate.lanes_[number()]), shared_(number() >= kOwnLanes) {
      enter();
      while (gate.closed_.load(shared_ ? std::memory_order_seq_cst : std::memory_order_acquire)) {
        leave();
        while (gate.closed_.load(std::memory_order_relaxed)) ::sched_yield();
        enter();
      }
    }
    ~Pass() { leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    void enter() noexcept {
      if (shared_) {
        lane_.inside.fetch_add(1);
      } else {
        lane_.inside.store(1, std::memory_order_relaxed);
        std::atomic_signal_fence(
            std::memory_order_seq_cst);  // a fence for the compiler; membarrier() is the one for the processor
      }
    }
    void leave() noexcept {
      if (shared_)
        lane_.inside.fetch_sub(1, std::memory_order_release);
      else
        lane_.inside.store(0, std::memory_order_release);
    }
    Lane& lane_;
    const bool shared_;  // true if several threads share the lane; the lane then counts them
  };

  /// A scope in which the calling thread is alone inside.
  class Alone {
   public:
    explicit Alone(Gate& gate) noexcept : gate_(gate) {
      gate_.turn_.lock();
      gate_.closed_.store(true);
      if (registered.load()) ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
      for (Lane& lane : gate_.lanes_) {
        while (lane.inside.load() != 0) ::sched_yield();
      }
    }
    ~Alone() {
      gate_.closed_.store(false);
      gate_.turn_.unlock();
    }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Gate& gate_;
  };

  /// Resets the gate in a child after fork: the threads that were inside no longer exist.
  void abandon() noexcept {
    for (Lane& lane : lanes_) lane.inside.store(0);
    closed_.store(false);
    turn_.unlock();
  }

 private:
  static constexpr std::uint32_t kOwnLanes = 64;  // one lane for each of the first threads of the process
  static constexpr std::uint32_t kSharedLanes = 8;

  /// Returns the number of the calling thread's lane, the same in every gate.
  static std::uint32_t number() noexcept {
    static thread_local std::uint32_t given = 0;  // the number, from 1; 0 before it is assigned
    if (given == 0) [[unlikely]]
      given = assign() + 1;
    return given - 1;
  }

  [[gnu::noinline]] static std::uint32_t assign() noexcept {
    const std::uint32_t thread = threads.fetch_add(1);
#ifndef __SANITIZE_THREAD__  // ThreadSanitizer does not know membarrier()
    if (thread < kOwnLanes && ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0) {
      registered.store(true);
      return thread;
    }
#endif
    return kOwnLanes + thread % kSharedLanes;
  }

  static inline std::atomic<std::uint32_t> threads{0};
  static inline std::atomic<bool> registered{false};

  Lane lanes_[kOwnLanes + kSharedLanes];
  std::atomic<bool> closed_{false};
  SpinLock turn_;
};

}  // namespace ration::guard
