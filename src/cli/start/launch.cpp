#include "cli/start/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "base/command.hpp"
#include "base/whole_file.hpp"

namespace ration::cli {
namespace {

volatile std::sig_atomic_t child_pid = 0;
void forward(int signal) {
  const int saved = errno;
  if (child_pid > 0) ::kill(child_pid, signal);
  errno = saved;
}

/// Time between the end of the program and the killing of what is left of its workload.
constexpr std::chrono::seconds kGrace{10};

/// Returns the parent and the state of a process, by /proc; absent if it is gone, also between opening and reading.
std::optional<std::pair<pid_t, char>> parent_and_state(pid_t pid) {
  const std::string text = read_whole("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const std::size_t at = text.rfind(')');  // the name before it may contain any character
  if (at == std::string::npos || at + 4 >= text.size()) return std::nullopt;
  return std::pair{static_cast<pid_t>(std::atoi(text.c_str() + at + 4)), text[at + 2]};
}

/// Returns every living descendant of this process. Orphans stay descendants, since this process is their subreaper.
std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc", error), end; !error && each != end; each.increment(error)) {
    const pid_t pid = std::atoi(each->path().filename().c_str());
    const auto stat = pid > 0 ? parent_and_state(pid) : std::nullopt;
    if (stat && stat->second != 'Z') children.emplace(stat->first, pid);
  }
  std::vector<pid_t> found{::getpid()};
  for (std::size_t at = 0; at < found.size(); ++at) {
    const auto [begin, end] = children.equal_range(found[at]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

/// Sends the signal to all descendants, including descendants that start meanwhile.
void signal_all(int signal) {
  std::set<pid_t> signalled;
  for (bool more = true; more;) {
    more = false;
    for (const pid_t pid : descendants())
      if (signalled.insert(pid).second && ::kill(pid, signal) == 0) more = true;
  }
}

/// A thread that takes SIGTERM and SIGHUP. It passes the first signal on to every process of the workload, and kills
/// these processes at the second signal. The signals must be blocked in every thread.
class Ender {
 public:
  explicit Ender(const sigset_t& signals) : signals_(signals), thread_([this] { serve(); }) {}
  ~Ender() {
    over_ = true;
    ::pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  Ender(const Ender&) = delete;
  Ender& operator=(const Ender&) = delete;

  [[nodiscard]] bool was_asked() const { return times_ > 0; }

 private:
  void serve() {
    for (int signal = 0;;) {
      if (::sigwait(&signals_, &signal) != 0) continue;
      if (over_) return;
      signal_all(++times_ == 1 ? signal : SIGKILL);
    }
  }

  const sigset_t signals_;
  std::atomic<bool> over_{false};
  std::atomic<int> times_{0};
  std::thread thread_;
};

/// Reaps the children that have ended. Returns true if other children still run.
bool reap() {
  pid_t which = 0;
  while ((which = ::waitpid(-1, nullptr, WNOHANG | __WNOTHREAD)) > 0) {
  }
  return which == 0;
}

/// Waits for the processes that the program left running, and kills them after kGrace.
void end_the_rest() {
  using Clock = std::chrono::steady_clock;
  const auto kill_at = Clock::now() + kGrace, give_up_at = kill_at + kGrace;  // another user's processes survive
  for (auto now = Clock::now(); reap() && now < give_up_at; now = Clock::now()) {
    if (now >= kill_at) signal_all(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

Ended launch(const std::vector<std::string>& program, const std::function<void()>& running) {
  std::vector<char*> arguments;
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return {125, errno};

  // An orphan stays a descendant of this process, so its workload can still be found.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // A signal that comes between the fork and the installation of the handlers must reach the program too. So signals
  // stay blocked until the handlers are installed.
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
  std::map<int, struct sigaction> found;  // the old handlers, restored for the next launch
  const auto answer = [&](int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, &found[signal]);
  };
  for (const int signal : {SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH}) answer(signal, forward);
  for (const int signal : {SIGINT, SIGQUIT}) answer(signal, SIG_IGN);  // the terminal sends them to the program itself
  sigset_t ending, kept = before;
  ::sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now); signal == SIGHUP && now.sa_handler == SIG_IGN) continue;  // nohup
    ::sigaddset(&ending, signal);
    ::sigaddset(&kept, signal);
  }
  ::sigprocmask(SIG_SETMASK, &kept, nullptr);
  auto ender = std::make_unique<Ender>(ending);

  Ended ended;
  if (::read(report[0], &ended.start_error, sizeof ended.start_error) != sizeof ended.start_error)
    ended.start_error = 0;
  ::close(report[0]);
  if (ended.start_error == 0) {
    ended.pid = child;
    running();
  }
  int status = 0;
  // Orphans become children of this thread. Other threads wait for the children that they start.
  for (pid_t which = 0; which != child;) {
    which = ::waitpid(-1, &status, __WNOTHREAD);
    if (which < 0 && errno != EINTR) break;
  }
  child_pid = 0;
  if (ender->was_asked()) end_the_rest();
  ender.reset();
  ended.left_running = reap();
  for (const auto& [signal, action] : found) ::sigaction(signal, &action, nullptr);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ended.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

bool has_systemd(bool of_user) {
  if (::access("/run/systemd/system", F_OK) != 0) return false;
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder = given != nullptr && *given != '\0' ? given : fmt::format("/run/user/{}", ::getuid());
  return !of_user || ::access((folder + "/systemd/private").c_str(), F_OK) == 0;
}

void execute(const std::vector<std::string>& program) {
  std::vector<char*> words;
  for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
}

void give_no_input() {
  if (const int nothing = ::open("/dev/null", O_RDONLY); nothing > STDIN_FILENO) {
    ::dup2(nothing, STDIN_FILENO);
    ::close(nothing);
  }
}

Result<int> become(const std::vector<std::string>& program) {
  execute(program);
  const std::string name = shell_word(program.front());
  return fail("E1419", fmt::format("{} cannot be started: {}.", name, std::strerror(errno)),
              "Install it, or check PATH: command -v " + name, 127);
}

std::vector<std::string> words_of_process(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", process), std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) words.emplace_back("program");
  return words;
}

std::string shown_command(const std::vector<std::string>& program) {
  std::string line;
  for (const std::string& word : program) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

namespace {

/// Replaces the forked child that calls it by the program. The program gets no input, because what is typed meanwhile
/// is for the parent.
[[noreturn]] void execute_with(const std::vector<std::string>& program, int output, Errors errors) {
  give_no_input();
  ::dup2(output, STDOUT_FILENO);
  if (errors == Errors::kCollected) ::dup2(output, STDERR_FILENO);
  execute(program);
  ::_exit(127);
}

}  // namespace

namespace {

/// Removes the guard's libraries from a list for the dynamic linker. Returns false if it had none.
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
  // Uses the system call itself, since execve() goes through the guard in this process, which would preload itself
  // again. Keeps RATION_BOOK, so that no limit is made inside a limit.
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
    execute_with(program, file, Errors::kCollected);
  }
  // The child does the same. Both do it, so that the child is in the group before anything signals the group.
  ::setpgid(child, group);
  ::close(file);
  return child;
}

}  // namespace ration::cli
