// The lock that processes take to change the node, and the functions that make other mutexes between processes. Used by
// the node and by turnstile.cpp.
//
// A lock inside a kernel driver is never held by a stopped process: SIGSTOP takes effect on the way out of the call.
// The same holds here: a process that waits for a stopped holder lets the holder's thread run, under ptrace(2), until
// it has released the lock, and then leaves it in its present state: stopped, or running after a SIGCONT. No other
// thread of that process runs, it gets no signal, and its parent hears nothing. If the system does not allow that
// (another pid namespace, another user, a debugger), the lock is free once the holder continues.
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
  /// Makes the lock; called once, when the node is made.
  void make();
  /// Takes the lock; `pid_namespace` is the caller's. Returns false if the former holder died: the lock is held, and
  /// the state must be repaired before mark_consistent().
  [[nodiscard]] bool lock(std::uint64_t pid_namespace);
  void mark_consistent() { ::pthread_mutex_consistent(&mutex_); }
  void unlock() { ::pthread_mutex_unlock(&mutex_); }

 private:
  void help_stopped_holder(std::uint64_t pid_namespace);

  pthread_mutex_t mutex_;
  std::atomic<std::uint64_t> holder_namespace_;  // of the holder, or the last one
};

/// Makes a mutex between processes that reports its holder's death. Returns the result of pthread_mutex_init().
int make_robust_mutex(pthread_mutex_t& mutex, int type, int protocol);

/// Returns the time for pthread_mutex_timedlock().
[[nodiscard]] timespec time_in(unsigned milliseconds);

}  // namespace ration::sim
