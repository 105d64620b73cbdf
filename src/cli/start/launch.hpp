// Programs started: one in the foreground as env(1) would, and helpers whose output is collected.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

struct Ended {
  int exit_code = 0;          ///< its own, 128 + signal, 126 (not executable) or 127 (not found)
  int start_error = 0;        ///< errno of a start that failed; 0: it ran
  bool left_running = false;  ///< processes that it started have outlived it
};

/// In the foreground: same process group, same terminal, signals passed on. What it starts and leaves becomes a child
/// of this process, until that ends. SIGTERM and SIGHUP go to all of these processes; what is left 10 s after the
/// program has ended is killed, at a second signal everything at once. `running` is called once it runs.
[[nodiscard]] Ended launch(
    const std::vector<std::string>& program, const std::function<void()>& running = [] {});

/// Where this program was started under a guard, starts it again in its own place without: inside, the limit of the
/// workload is all that a device has, and ration is about the device. Returns where there is none, or it cannot.
void leave_guard(char** arguments);

/// Whether systemd runs here: of the machine, or of this user.
[[nodiscard]] bool has_systemd(bool of_user);

/// Gives this process /dev/null as standard input.
void give_no_input();

/// This process becomes the program. Returns where it cannot be started, and errno says why.
void execute(const std::vector<std::string>& program);
/// The same, or E1419 where it cannot be started.
[[nodiscard]] Result<int> become(const std::vector<std::string>& program);

struct Output {
  int exit_code = 125;
  std::string text;  ///< standard output, and error where it was not left alone
};
enum class Errors { kCollected, kLeftAlone };
/// Runs a program to its end, without input, and collects what it prints.
[[nodiscard]] Output output_of(const std::vector<std::string>& program, Errors errors = Errors::kCollected);

/// The words of a command line as a shell takes them.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& program);

/// Starts a program in the background, in that process group, without input, its output in `log`. -1: it could not be
/// started.
[[nodiscard]] pid_t start_in_background(const std::vector<std::string>& program, const std::string& log, pid_t group);

}  // namespace ration::cli
