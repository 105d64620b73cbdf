// The turnstile through which the driver calls of one process pass. It lies in the node's shared memory, so that
// another process can hold the calls up, as a checkpoint must. Used by the simulated driver's calls, by checkpoint.cpp
// and by the node.
//
// Promises: a process that dies while it holds a turnstile leaves no process waiting; a waiter is woken and never
// polls; the waiter that has waited longest gets the mutex, so even a process that calls without pause can be locked.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/byte_lock.hpp"

namespace ration::sim {

/// The values of `Turnstile::state`, numbered as the driver's CUprocessState.
inline constexpr std::uint32_t kRunning = 0, kLocked = 1, kCheckpointed = 2, kFailed = 3;

/// A turnstile of one process. A running process has zeros everywhere except in the mutex. `state` changes only under
/// both the mutex and the node's lock, so no checkpoint overtakes a call that holds the mutex and has found the process
/// running.
struct Turnstile {
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> state;
  std::atomic<std::int32_t> locker;  // the thread that locked the process
  std::atomic<std::uint32_t>
      moving;  // 1 during a checkpoint or restore; if the process that makes it dies, this process has failed
};

/// Makes the mutex. Called once, when the node is made.
void make_turnstile(Turnstile& turnstile);

/// The node's record of the calling process. It is all zeros in every child, even in one made by the clone system call.
struct OwnProcess {
  std::atomic<Turnstile*> turnstile;         // null before cuInit and when the process ends
  std::atomic<int> record;                   // the number of its record in the node, counted from 1; 0: none
  LockKeeper presence;                       // keeps the lock of that record; changes require the node's lock
  std::atomic<std::uint64_t> pid_namespace;  // 0: not known yet
};
extern OwnProcess* own_process;  // never null

/// Takes the mutex. Waits for at most `timeout_ms` milliseconds, or as long as necessary if `timeout_ms` is 0. Returns
/// false on a timeout. If a process died while it made a checkpoint or restore of the turnstile's process, marks the
/// turnstile's process as failed.
[[nodiscard]] bool hold(Turnstile& turnstile, unsigned timeout_ms = 0);
/// Takes the mutex as hold() does, but without waiting. Returns false if another thread holds the mutex.
[[nodiscard]] bool try_hold(Turnstile& turnstile);
void let_go(Turnstile& turnstile);
/// Sets the state and wakes waiting threads. Requires the mutex.
void set_state(Turnstile& turnstile, std::uint32_t state);

/// Returns the calling thread as `Turnstile::locker` stores it.
[[nodiscard]] std::int32_t this_thread();

/// Waits while the calling process is locked. Returns false if this thread locked the process, since the thread would
/// wait for itself.
[[nodiscard]] bool pass(Turnstile& turnstile);

/// A scope inside the calling process's turnstile, in which no other process can lock the process. Scopes may be
/// nested.
class Passage {
 public:
  Passage() { enter(); }
  ~Passage() { leave(); }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

 private:
  friend class DriverMutex;
  void enter();
  void leave() {
    if (held_ != nullptr) let_go(*held_);
    held_ = nullptr;
  }
  Turnstile* held_ = nullptr;
};

}  // namespace ration::sim
