// What `ration demo` plays: a simulated node, the configuration of its daemon, programs and when they start, commands
// and when they are typed. One TOML file: the tables of ration.toml beside [scenario], [[program]], [[command]] and
// [[moment]]. Used by the demo; the tests play the same files.
// Promises: a file with anything wrong is rejected whole, with file, line and column (E1441).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

using Nanoseconds = std::chrono::nanoseconds;

/// One program under `ration run`: a recorded history again and again, or steps of `ration-workload steps`.
struct ScenarioProgram {
  std::string name, tenant, gpu, limit, guarantee, on_deny;
  std::vector<std::string> labels;
  Nanoseconds start{};
  std::string trace;   ///< of share/ration/traces
  Nanoseconds over{};  ///< how long the trace takes once
  int loops = 1;       ///< of the trace
  std::vector<std::string> steps;
  std::string block, via, refused;
  bool repeat = false;  ///< the steps, until the demo ends
};

/// `ration set nlp --limit 20GiB`, typed at that time; or several, each time a program begins to wait for memory, one
/// after the other, each until it succeeds.
struct ScenarioCommand {
  Nanoseconds at{};
  std::string waits;  ///< whose waiting it answers; empty: at that time
  std::vector<std::vector<std::string>> lines;
};

/// What there is to see, and when; shown at the start.
struct ScenarioMoment {
  Nanoseconds at{};
  std::string text;
};

struct Scenario {
  std::string name, about, node;
  std::string try_this;                   ///< a command line for another terminal
  Nanoseconds length{};                   ///< when everything has been shown
  std::string configuration;              ///< the same file without what is not a part of ration.toml, line for line
  std::vector<ScenarioProgram> programs;  ///< copies made, by start
  std::vector<ScenarioCommand> commands;  ///< those with a time, by it
  std::vector<ScenarioMoment> moments;
};

/// By name from share/ration/scenarios, or a path that ends in .toml. `speed`: times are divided by it, those of
/// policies too. E1441.
[[nodiscard]] Result<Scenario> read_scenario(const std::string& name, double speed);

/// Those that come with ration.
[[nodiscard]] std::vector<std::string> scenario_names();

/// Of a scenario that comes with ration as a program of its own, because it needs more than simulated GPUs: its path.
/// It is run with RATION, the path of this program, in its environment. Empty: it is none.
[[nodiscard]] std::string scenario_program(const std::string& name);

}  // namespace ration::cli
