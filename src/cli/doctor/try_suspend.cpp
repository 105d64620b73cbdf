#include "cli/doctor/try_suspend.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/file.hpp"
#include "cli/session/simulated.hpp"
#include "cli/start/launch.hpp"
#include "node/residency/checkpoint_jobs.hpp"

namespace ration::cli {
namespace {

constexpr const char* kMiB = "64";
constexpr int kPatienceMs = 60'000;

/// A running `ration-workload keep`, which the destructor kills with all that it started.
class MemoryHolder {
 public:
  MemoryHolder(const std::string& driver_folder, const machine::Device& device, bool shared) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    const std::string program = companion("ration-workload");
    child_ = ::fork();
    if (child_ == 0) {
      ::setpgid(0, 0);
      ::dup2(ends[1], STDIN_FILENO);
      ::dup2(ends[1], STDOUT_FILENO);
      ::setenv("CUDA_VISIBLE_DEVICES", device.uuid.c_str(), 1);
      if (!driver_folder.empty()) {
        const char* before = std::getenv("LD_LIBRARY_PATH");
        ::setenv("LD_LIBRARY_PATH", (driver_folder + (before == nullptr ? "" : std::string(":") + before)).c_str(), 1);
      }
      ::execl(program.c_str(), program.c_str(), "keep", kMiB, shared ? "--shared" : nullptr, nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    socket_ = FileDescriptor{ends[0]};
  }
  ~MemoryHolder() {
    if (child_ <= 0) return;
    ::kill(-child_, SIGKILL);
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  MemoryHolder(const MemoryHolder&) = delete;
  MemoryHolder& operator=(const MemoryHolder&) = delete;

  void ask() const { (void)!::send(socket_.get(), "\n", 1, MSG_NOSIGNAL); }
  /// Returns the next line that the program prints; empty if none comes in time.
  [[nodiscard]] std::string line() const {
    std::string text;
    pollfd waited{socket_.get(), POLLIN, 0};
    for (char letter = 0; ::poll(&waited, 1, kPatienceMs) == 1 && ::read(socket_.get(), &letter, 1) == 1;) {
      if (letter == '\n') return text;
      text += letter;
    }
    return {};
  }

 private:
  pid_t child_ = -1;
  FileDescriptor socket_;
};

/// Moves memory in a process of its own, which is killed if the driver hangs.
Result<machine::CheckpointOutcome> move(const std::string& driver_folder, const char* action,
                                        const std::vector<ProcessIdentity>& processes) {
  std::vector<std::string> words{"timeout", "-k", "5", "120", companion("ration"), "checkpoint-processes", action};
  if (!driver_folder.empty()) words.push_back("--driver=" + driver_folder);
  for (const ProcessIdentity& process : processes) words.push_back(node::to_word(process));
  return node::outcome_from_line(output_of(words).text);
}

/// Moves a program to the host and back. Returns the reason if that failed; otherwise an empty text.
std::string try_once(const Session& session, const std::string& driver_folder, const machine::Device& device,
                     bool shared) {
  const MemoryHolder holder(driver_folder, device, shared);
  std::istringstream printed(holder.line());
  std::string word;
  printed >> word;
  std::vector<ProcessIdentity> processes;
  for (std::int32_t pid = 0; printed >> pid;)
    if (const auto process = identity_of(pid)) processes.push_back(*process);
  if (word != "holds" || processes.size() != (shared ? 2U : 1U))
    return fmt::format("a program with {} MiB could not be started", kMiB);
  if (const auto moved = move(driver_folder, "suspend", processes); !moved) return moved.error().what;
  const auto machine = session.machine();
  if (!machine) return machine.error().what;
  if (machine::is_on_device(*machine, processes))
    return "after the suspension, the program's memory was still on the device";
  if (const auto back = move(driver_folder, "resume", processes); !back) return back.error().what;
  holder.ask();
  return holder.line() == "kept" ? "" : "after the resumption, the content of the program's memory was different";
}

}  // namespace

Trial try_suspension(const Session& session, const machine::Device& device) {
  Trial trial;
  const auto folder = session.driver_folder();
  trial.problem = folder ? try_once(session, *folder, device, false) : std::string(folder.error().what);
  trial.moved.plain = trial.problem.empty();
  if (!trial.moved.plain) return trial;
  if (const std::string problem = try_once(session, *folder, device, true); !problem.empty())
    trial.problem = "the driver does not move memory that two processes hold: " + problem;
  trial.moved.shared = trial.problem.empty();
  return trial;
}

}  // namespace ration::cli
