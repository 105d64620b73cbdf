// Starts programs: one in the foreground, as env(1) does, and helpers whose output is collected.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

struct Ended {
  int exit_code = 0;          ///< exit code of the program, 128 + signal, 126 (not executable) or 127 (not found)
  int start_error = 0;        ///< errno of a failed start; 0 if the program ran
  int pid = 0;                ///< the program itself; 0 if it did not start
  bool left_running = false;  ///< true if processes that it started have outlived it
};

/// Runs a program in the foreground, in the same process group and terminal, and calls `running` once it has started.
/// Orphans of the program become children of this process. Passes SIGTERM and SIGHUP on to the program and to all
/// processes that it started, and kills the processes that are left 10 s after the program has ended. A second signal
/// kills all of them at once.
[[nodiscard]] Ended launch(
    const std::vector<std::string>& program, const std::function<void()>& running = [] {});

/// If the guard is loaded into this process, executes this program again without the guard, which would report the
/// workload's limit as the size of a device. Returns only if there is no guard or the execution fails.
void leave_guard(char** arguments);

/// Returns true if systemd runs here, for the machine or for this user.
[[nodiscard]] bool has_systemd(bool of_user);

/// Gives this process /dev/null as standard input.
void give_no_input();

/// Replaces this process by the program. Returns only if that fails, with the reason in errno.
void execute(const std::vector<std::string>& program);
/// Replaces this process by the program. Fails with E1419.
[[nodiscard]] Result<int> become(const std::vector<std::string>& program);

struct Output {
  int exit_code = 125;
  std::string text;  ///< standard output, and standard error if it is collected
};
enum class Errors { kCollected, kLeftAlone };
/// Runs a program to its end, without input, and collects what it prints.
[[nodiscard]] Output output_of(const std::vector<std::string>& program, Errors errors = Errors::kCollected);

/// Returns a command line with its words quoted for a shell.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& program);

/// Returns the words of a process's command line; `program` if they cannot be read.
[[nodiscard]] std::vector<std::string> words_of_process(pid_t process);

/// Starts a program in the background, in process group `group`, without input and with its output in `log`. Returns -1
/// if that fails.
[[nodiscard]] pid_t start_in_background(const std::vector<std::string>& program, const std::string& log, pid_t group);

}  // namespace ration::cli
