// The lock under which processes change the node, and the functions that make other mutexes between processes. Used by
// the node and by turnstile.cpp.
//
// A stopped process never holds a lock inside a real kernel driver, since SIGSTOP takes effect on the way out of the
// call. This lock behaves in the same way. A process that waits for a stopped holder uses ptrace(2) to let the thread
// that holds the lock run until that thread has released the lock. Afterwards the holder is stopped as before, or runs
// if it has got a SIGCONT. While the thread runs, no other thread of the holder runs, the holder gets no signal, and
// its parent is not notified. If the system does not allow ptrace(2) (another pid namespace, another user, a debugger),
// the lock is released once the holder continues.
//
// Promise: a holder that dies leaves no process waiting.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace ration::sim {

class NodeLock {
 public:
  /// Makes the lock. Called once, when the node is made.
  void make();
  /// Takes the lock; `pid_namespace` is the caller's. Returns false if the former holder died: the lock is then held,
  /// and the caller must repair the state and call mark_consistent().
  [[nodiscard]] bool lock(std::uint64_t pid_namespace);
  void mark_consistent() { ::pthread_mutex_consistent(&mutex_); }
  void unlock() { ::pthread_mutex_unlock(&mutex_); }

 private:
  void help_stopped_holder(std::uint64_t pid_namespace);

  pthread_mutex_t mutex_;
  std::atomic<std::uint64_t> holder_namespace_;  // the pid namespace of the present or latest holder
};

/// Makes a mutex between processes that reports the death of its holder. Returns the result of pthread_mutex_init().
int make_robust_mutex(pthread_mutex_t& mutex, int type, int protocol);

/// Returns the time in `milliseconds` from now, for pthread_mutex_timedlock().
[[nodiscard]] timespec time_in(unsigned milliseconds);

}  // namespace ration::sim
