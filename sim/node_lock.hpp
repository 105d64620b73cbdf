// The lock that processes take to change the node, and what other mutexes between processes are made of.
// Used by the node and by turnstile.cpp.
//
// A lock inside a kernel driver is never held by a stopped process: SIGSTOP takes effect on the way out of the call.
// So it is here. Who waits for a holder that is stopped has its thread run on, under ptrace(2), until it has given the
// lock up, and then leaves it as the kernel has it meanwhile: stopped, or going on after a SIGCONT. No other thread of
// that process runs, it gets no signal, and its parent hears nothing. Where the system does not allow that (another pid
// namespace, another user, a debugger), the lock is free once the holder goes on.
//
// Promise: a holder that dies leaves nobody waiting.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace ration::sim {

class NodeLock {
 public:
  /// Once, when the node is made.
  void make();
  /// `pid_namespace`: the caller's. False: who held it died; the lock is held, and what it guards is to be put in order
  /// before mark_consistent().
  [[nodiscard]] bool lock(std::uint64_t pid_namespace);
  void mark_consistent() { ::pthread_mutex_consistent(&mutex_); }
  void unlock() { ::pthread_mutex_unlock(&mutex_); }

 private:
  void help_stopped_holder(std::uint64_t pid_namespace);

  pthread_mutex_t mutex_;
  std::atomic<std::uint64_t> holder_namespace_;  // of the holder, or the last one
};

/// Makes a mutex between processes that is told of its holder's death. What pthread_mutex_init() answers.
int make_robust_mutex(pthread_mutex_t& mutex, int type, int protocol);

/// For pthread_mutex_timedlock().
[[nodiscard]] timespec time_in(unsigned milliseconds);

}  // namespace ration::sim
