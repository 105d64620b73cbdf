#include "cli/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/command.hpp"

namespace ration::cli {
namespace {

volatile std::sig_atomic_t child_pid = 0;
void forward(int signal) {
  const int saved = errno;
  if (child_pid > 0) ::kill(child_pid, signal);
  errno = saved;
}

}  // namespace

Ended launch(const std::vector<std::string>& program, const std::function<void()>& running) {
  std::vector<char*> arguments;
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return {125, errno};

  // A child whose own parent has ended stays a descendant of this process, so it is seen whose workload it belongs to.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
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
  for (const int signal : {SIGINT, SIGQUIT})
    ::signal(signal, SIG_IGN);  // the terminal sends them to the program itself
  ::sigprocmask(SIG_SETMASK, &before, nullptr);

  Ended ended;
  if (::read(report[0], &ended.start_error, sizeof ended.start_error) != sizeof ended.start_error)
    ended.start_error = 0;
  ::close(report[0]);
  if (ended.start_error == 0) running();
  int status = 0;
  // Orphans become children of this thread; those that other threads start are theirs to wait for.
  for (pid_t which = 0; which != child;) {
    which = ::waitpid(-1, &status, __WNOTHREAD);
    if (which < 0 && errno != EINTR) break;
  }
  child_pid = 0;
  int orphan_status = 0;
  pid_t orphan = 0;
  while ((orphan = ::waitpid(-1, &orphan_status, WNOHANG | __WNOTHREAD)) > 0) {
  }
  ended.left_running = orphan == 0;
  ended.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

void execute(const std::vector<std::string>& program) {
  std::vector<char*> words;
  for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
}

Result<int> become(const std::vector<std::string>& program) {
  execute(program);
  const std::string name = shell_word(program.front());
  return fail("E1419", fmt::format("{} cannot be started: {}.", name, std::strerror(errno)),
              "Install it, or look at PATH: command -v " + name, 127);
}

std::string shown_command(const std::vector<std::string>& program) {
  std::string line;
  for (const std::string& word : program) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

namespace {

/// Of a child of this process.
[[noreturn]] void execute_with(const std::vector<std::string>& program, int output, Errors errors) {
  ::dup2(output, STDOUT_FILENO);
  if (errors == Errors::kCollected) ::dup2(output, STDERR_FILENO);
  execute(program);
  ::_exit(127);
}

}  // namespace

namespace {

/// Takes the guard's libraries out of a list for the dynamic linker. False: there were none.
bool drop_guard(const char* variable) {
  const char* value = std::getenv(variable);
  const std::string entries = value != nullptr ? value : "";
  std::string kept;
  bool dropped = false;
  for (std::size_t at = 0; at < entries.size();) {
    const std::size_t end = std::min(entries.find_first_of(" :", at), entries.size());
    const std::string entry = entries.substr(at, end - at);
    at = end + 1;
    if (entry.ends_with("/libcuda.so.1") || entry.ends_with("/libnvidia-ml.so.1") ||
        entry.ends_with("/libration-audit.so"))
      dropped = true;
    else if (!entry.empty())
      kept += (kept.empty() ? "" : ":") + entry;
  }
  if (kept.empty())
    ::unsetenv(variable);
  else
    ::setenv(variable, kept.c_str(), 1);
  return dropped;
}

}  // namespace

void leave_guard(char** arguments) {
  if (std::getenv("RATION_BOOK") == nullptr) return;
  const bool audited = drop_guard("LD_AUDIT"), preloaded = drop_guard("LD_PRELOAD");
  // By the kernel's own call: the guard in this process would put itself back. RATION_BOOK stays: no limit is made
  // inside a limit.
  if (audited || preloaded) ::syscall(SYS_execve, "/proc/self/exe", arguments, environ);
}

Output output_of(const std::vector<std::string>& program, Errors errors) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) execute_with(program, ends[1], errors);
  ::close(ends[1]);
  Output output;
  char buffer[4096];
  for (ssize_t length = 0; (length = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    output.text.append(buffer, static_cast<std::size_t>(length));
  ::close(ends[0]);
  int status = 0;
  if (child > 0 && ::waitpid(child, &status, 0) == child)
    output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

pid_t start_in_background(const std::vector<std::string>& program, const std::string& log, pid_t group) {
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, group);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    execute_with(program, file, Errors::kCollected);
  }
  // Here as well: whoever signals the group at once must reach it.
  ::setpgid(child, group);
  ::close(file);
  return child;
}

}  // namespace ration::cli
