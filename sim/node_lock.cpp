#include "node_lock.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.hpp"
#include "base/process.hpp"

namespace ration::sim {
namespace {

constexpr unsigned kPatienceMs = 1, kMaxPatienceMs = 32;

/// Returns the thread that holds the mutex, or 0. The kernel reads the same field when a thread dies
/// (robust-futex-ABI).
pid_t holder_of(const pthread_mutex_t& mutex) {
  return static_cast<pid_t>(__atomic_load_n(&mutex.__data.__lock, __ATOMIC_RELAXED) & FUTEX_TID_MASK);
}

struct StoppedHolder {
  const pthread_mutex_t* mutex;
  pid_t thread;
  [[nodiscard]] bool holds() const { return holder_of(*mutex) == thread; }
};

/// Lets the holder run until it releases the lock. Runs in a process of its own that shares the caller's memory and
/// thread-local state, so it only makes system calls.
int let_run_out_of_lock(void* argument) {
  const auto& holder = *static_cast<const StoppedHolder*>(argument);
  ::setpgid(0, 0);  // a signal to the caller's process group must not stop this process
  if (::ptrace(PTRACE_SEIZE, holder.thread, nullptr, nullptr) != 0) return 1;
  for (;;) {
    siginfo_t stop{};
    while (holder.holds() && stop.si_pid == 0) {
      const timespec nap{0, 20'000};
      ::syscall(SYS_nanosleep, &nap, nullptr);
      ::syscall(SYS_waitid, P_PID, holder.thread, &stop, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL, nullptr);
    }
    if (stop.si_pid == 0) ::ptrace(PTRACE_INTERRUPT, holder.thread, nullptr, nullptr);
    int status = 0;
    if (::syscall(SYS_wait4, holder.thread, &status, __WALL, nullptr) != holder.thread || !WIFSTOPPED(status)) return 0;
    // Delivers a signal that was on its way to the program. A stop of a process group (PTRACE_EVENT_STOP) is no signal.
    const long signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
    if (!holder.holds()) return ::ptrace(PTRACE_DETACH, holder.thread, nullptr, signal) == 0 ? 0 : 1;
    ::ptrace(PTRACE_CONT, holder.thread, nullptr, signal);
  }
}

}  // namespace

int make_robust_mutex(pthread_mutex_t& mutex, int type, int protocol) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutexattr_settype(&attributes, type);
  ::pthread_mutexattr_setprotocol(&attributes, protocol);
  const int result = ::pthread_mutex_init(&mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  return result;
}

timespec time_in(unsigned milliseconds) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += milliseconds / 1000;
  until.tv_nsec += static_cast<long>(milliseconds % 1000) * 1'000'000;
  if (until.tv_nsec >= 1'000'000'000) ++until.tv_sec, until.tv_nsec -= 1'000'000'000;
  return until;
}

void NodeLock::make() { make_robust_mutex(mutex_, PTHREAD_MUTEX_DEFAULT, PTHREAD_PRIO_NONE); }

bool NodeLock::lock(std::uint64_t pid_namespace) {
  int result = ::pthread_mutex_trylock(&mutex_);
  for (unsigned patience = kPatienceMs; result == EBUSY || result == ETIMEDOUT;
       patience = std::min(2 * patience, kMaxPatienceMs)) {
    const timespec until = time_in(patience);
    result = ::pthread_mutex_timedlock(&mutex_, &until);
    if (result == ETIMEDOUT) help_stopped_holder(pid_namespace);
  }
  holder_namespace_.store(pid_namespace, std::memory_order_relaxed);
  return result != EOWNERDEAD;
}

void NodeLock::help_stopped_holder(std::uint64_t pid_namespace) {
  StoppedHolder holder{&mutex_, holder_of(mutex_)};
  if (holder.thread == 0 || holder_namespace_.load(std::memory_order_relaxed) != pid_namespace ||
      !is_stopped(holder.thread))
    return;
  // The program must see neither an unknown child nor its signal: hence no SIGCHLD, and __WCLONE to wait.
  constexpr std::size_t kStackSize = 65536;
  void* stack = ::mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return;
  const Mapping kept{stack, kStackSize};
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int helper =
      ::clone(let_run_out_of_lock, static_cast<char*>(stack) + kStackSize, CLONE_VM | CLONE_VFORK, &holder);
  while (helper > 0 && ::syscall(SYS_wait4, helper, nullptr, __WCLONE, nullptr) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ration::sim
