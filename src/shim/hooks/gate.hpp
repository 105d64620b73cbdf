// Many may pass at once, unless one asks to be alone. Used where what a driver call will take is foretold from what was
// seen so far: nobody else may be between the call and its entry then. Passing costs two uncontended atomic additions.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "shim/hooks/table.hpp"

namespace ration::shim {

/// Thread-safe. Nobody may sleep inside for longer than a driver call takes.
class Gate {
 public:
  /// While one lives, its thread has passed.
  class Pass {
   public:
    explicit Pass(Gate& gate) noexcept : inside_(gate.mine()) {
      for (;;) {
        inside_.fetch_add(1);
        if (!gate.closed_.load()) return;
        inside_.fetch_sub(1);
        while (gate.closed_.load(std::memory_order_relaxed)) ::sched_yield();
      }
    }
    ~Pass() { inside_.fetch_sub(1, std::memory_order_release); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    std::atomic<std::uint32_t>& inside_;
  };

  /// While one lives, its thread is alone inside.
  class Alone {
   public:
    explicit Alone(Gate& gate) noexcept : gate_(gate) {
      gate_.turn_.lock();
      gate_.closed_.store(true);
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

  /// In a child after fork: whoever was inside is gone.
  void abandon() noexcept {
    for (Lane& lane : lanes_) lane.inside.store(0);
    closed_.store(false);
    turn_.unlock();
  }

 private:
  static constexpr std::uint32_t kLanes = 16;  // threads rarely meet in one
  struct alignas(64) Lane {
    std::atomic<std::uint32_t> inside{0};
  };

  std::atomic<std::uint32_t>& mine() noexcept {
    static std::atomic<std::uint32_t> threads{0};
    static thread_local const std::uint32_t lane = threads.fetch_add(1, std::memory_order_relaxed) % kLanes;
    return lanes_[lane].inside;
  }

  Lane lanes_[kLanes];
  std::atomic<bool> closed_{false};
  SpinLock turn_;
};

}  // namespace ration::shim
