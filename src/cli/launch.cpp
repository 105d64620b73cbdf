#include "cli/launch.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace ration::cli {
namespace {

volatile std::sig_atomic_t child_pid = 0;
void forward(int signal) {
  const int saved = errno;
  if (child_pid > 0) ::kill(child_pid, signal);
  errno = saved;
}

}  // namespace

Ended launch(const std::vector<std::string>& program) {
  std::vector<char*> arguments;
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return {125, errno};

  // A signal that comes between fork and the handlers must reach the program too: it waits until they stand.
  sigset_t held, before;
  ::sigfillset(&held);
  ::sigprocmask(SIG_BLOCK, &held, &before);
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::close(report[0]);
    ::close(report[1]);
    return {125, error};
  }
  if (child == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!::write(report[1], &error, sizeof error);
    ::_exit(error == ENOENT ? 127 : 126);
  }
  ::close(report[1]);
  child_pid = child;
  struct sigaction pass {};
  pass.sa_handler = forward;
  pass.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH}) ::sigaction(signal, &pass, nullptr);
  for (const int signal : {SIGINT, SIGQUIT}) ::signal(signal, SIG_IGN);  // the terminal sends them to the program itself
  ::sigprocmask(SIG_SETMASK, &before, nullptr);

  Ended ended;
  if (::read(report[0], &ended.start_error, sizeof ended.start_error) != sizeof ended.start_error) ended.start_error = 0;
  ::close(report[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child_pid = 0;
  ended.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

}  // namespace ration::cli
