// A child process that is stopped at a chosen one of its system calls: what happens there happens at the same step in
// every run, and the step has a number. Between two calls a program changes nothing that others can see but memory that
// it shares with them.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

namespace ration {

/// A process that stands at a system call, or has ended.
struct Stopped {
  pid_t pid = -1;
  int steps = 0;              ///< how many system calls' beginnings and ends it came to
  std::optional<int> status;  ///< as waitpid() has it, once it has ended; it ended before its step then
};

/// Runs `work` in a child process up to its system call number `step`, from 1 on: its beginning and its end count as
/// one each. The child ends with what `work` returns, and with this process.
template <typename Work>
Stopped stopped_at(int step, Work&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(255);
    ::raise(SIGSTOP);
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return {child, 0, status};
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
  int steps = 0;
  for (int signal = 0; steps < step;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    ::waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) return {child, steps, status};
    const bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    signal = is_call ? 0 : WSTOPSIG(status);
    if (is_call) ++steps;
  }
  return {child, steps, std::nullopt};
}

/// Lets it go on alone, and returns how it ended.
inline int let_go(const Stopped& stopped) {
  if (stopped.status) return *stopped.status;
  int status = 0;
  ::ptrace(PTRACE_DETACH, stopped.pid, nullptr, nullptr);
  ::waitpid(stopped.pid, &status, 0);
  return status;
}

/// Kills it where it stands, and returns how it ended.
inline int kill_there(const Stopped& stopped) {
  if (stopped.status) return *stopped.status;
  int status = 0;
  ::kill(stopped.pid, SIGKILL);
  ::waitpid(stopped.pid, &status, 0);
  return status;
}

}  // namespace ration
