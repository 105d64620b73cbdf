// Where the driver calls of one process pass, in the node's shared memory, so that another process can hold them up:
// what a checkpoint needs. Used by the simulated driver's calls, by checkpoint.cpp and by the node.
//
// Promises: whoever holds a turnstile when it dies leaves nobody waiting; a waiter is woken, it never polls; the mutex
// is handed to whoever has waited longest, so a process that calls without pause can be locked all the same.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/file.hpp"

namespace ration::sim {

/// Values of `Turnstile::state`: CUprocessState, as the driver numbers it.
inline constexpr std::uint32_t kRunning = 0, kLocked = 1, kCheckpointed = 2, kFailed = 3;

/// All zeros but for the mutex is the turnstile of a running process. `state` changes under the mutex and the node's
/// lock only, so a call that holds the mutex and found it running is never overtaken by a checkpoint.
struct Turnstile {
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> state;
  std::atomic<std::int32_t> locker;   // the thread that locked the process
  std::atomic<std::uint32_t> moving;  // a checkpoint or a restore is under way: its death fails the process
};

/// Once, when the node is made.
void make_turnstile(Turnstile& turnstile);

/// What the node knows of the calling process. In every child, also in one made by the clone system call itself, all of
/// it is zero again.
struct OwnProcess {
  std::atomic<Turnstile*> turnstile;         // null before cuInit and when the process ends
  std::atomic<int> record;                   // the number of its record in the node, from 1; 0: it has none
  Mapping presence;                          // keeps that record's lock; under the node's lock
  std::atomic<std::uint64_t> pid_namespace;  // 0: not asked for yet
};
extern OwnProcess* own_process;  // never null

/// Takes the mutex; `timeout_ms` 0: however long it takes. False: not in time. A checkpoint or restore whose process
/// died in the middle of it leaves the target failed.
[[nodiscard]] bool hold(Turnstile& turnstile, unsigned timeout_ms = 0);
/// The same without waiting. False: somebody holds it.
[[nodiscard]] bool try_hold(Turnstile& turnstile);
void let_go(Turnstile& turnstile);
/// Sets the state and wakes who waits for it. Under the mutex.
void set_state(Turnstile& turnstile, std::uint32_t state);

/// As `Turnstile::locker` names it.
[[nodiscard]] std::int32_t this_thread();

/// Waits while the calling process is locked. False: it was locked by this very thread, which would wait for itself.
[[nodiscard]] bool pass(Turnstile& turnstile);

/// Holds the calling process's turnstile from where the process runs: nobody locks it meanwhile. May be nested.
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
