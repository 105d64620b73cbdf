// The turnstile through which the driver calls of one process pass, in the node's shared memory, so that another
// process can hold them up, as a checkpoint must. Used by the simulated driver's calls, by checkpoint.cpp and by the
// node.
//
// Promises: a process that dies while it holds a turnstile leaves no process waiting; a waiter is woken, it never
// polls; the mutex is handed to the waiter that has waited longest, so a process that calls without pause can be locked
// all the same.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/file.hpp"

namespace ration::sim {

/// Values of `Turnstile::state`: CUprocessState, as the driver numbers it.
inline constexpr std::uint32_t kRunning = 0, kLocked = 1, kCheckpointed = 2, kFailed = 3;

/// All zeros except the mutex is the turnstile of a running process. `state` changes only under both the mutex and the
/// node's lock, so a call that holds the mutex and found it running is never overtaken by a checkpoint.
struct Turnstile {
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> state;
  std::atomic<std::int32_t> locker;  // the thread that locked the process
  std::atomic<std::uint32_t>
      moving;  // a checkpoint or a restore is in progress: the death of its process fails this process
};

/// Makes the mutex; called once, when the node is made.
void make_turnstile(Turnstile& turnstile);

/// The node's record of the calling process. It is all zeros in every child, also in one made by the clone system call.
struct OwnProcess {
  std::atomic<Turnstile*> turnstile;         // null before cuInit and when the process ends
  std::atomic<int> record;                   // the number of its record in the node, from 1; 0: it has none
  Mapping presence;                          // keeps that record's lock; under the node's lock
  std::atomic<std::uint64_t> pid_namespace;  // 0: not asked for yet
};
extern OwnProcess* own_process;  // never null

/// Takes the mutex; `timeout_ms` 0: waits without end. Returns false on a timeout. A checkpoint or restore whose
/// process died in the middle of it leaves the target failed.
[[nodiscard]] bool hold(Turnstile& turnstile, unsigned timeout_ms = 0);
/// As above without waiting. Returns false if another thread holds it.
[[nodiscard]] bool try_hold(Turnstile& turnstile);
void let_go(Turnstile& turnstile);
/// Sets the state and wakes waiting threads. Requires the mutex.
void set_state(Turnstile& turnstile, std::uint32_t state);

/// Returns the calling thread as `Turnstile::locker` stores it.
[[nodiscard]] std::int32_t this_thread();

/// Waits while the calling process is locked. Returns false if this very thread locked it, which would wait for itself.
[[nodiscard]] bool pass(Turnstile& turnstile);

/// Holds the calling process's turnstile from where the process runs: no other process can lock it meanwhile. May be
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
