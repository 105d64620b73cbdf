// Scenarios of `ration demo`: a simulated node, the configuration of its daemon, programs with their start times, and
// commands with the times at which they are typed. A scenario is one TOML file with the tables of ration.toml and also
// [scenario], [[program]], [[command]] and [[moment]]. Used by the demo; the tests play the same files. Promise: a file
// with a mistake is rejected whole, with file, line and column (E1441).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

using Nanoseconds = std::chrono::nanoseconds;

/// A program that runs under `ration run`. It repeats a recorded history, or performs steps of `ration-workload steps`.
struct ScenarioProgram {
  std::string name, tenant, gpu, limit, guarantee, on_deny;
  std::vector<std::string> labels;
  Nanoseconds start{};
  std::string trace;   ///< name of a history in share/ration/traces
  Nanoseconds over{};  ///< duration of one pass through the trace
  int loops = 1;       ///< number of passes through the trace
  std::vector<std::string> steps;
  std::string block, via, refused;
  bool repeat = false;  ///< true to repeat the steps until the demo ends
};

/// Commands such as `ration set nlp --limit 20GiB`. They are typed at a given time, or whenever a program begins to
/// wait for memory. In the second case each command is repeated until it succeeds, and the next one follows.
struct ScenarioCommand {
  Nanoseconds at{};
  std::string waits;  ///< the program that must wait for memory; empty for commands with a time
  std::vector<std::vector<std::string>> lines;
};

/// A moment worth seeing, which the demo announces at its start.
struct ScenarioMoment {
  Nanoseconds at{};
  std::string text;
};

struct Scenario {
  std::string name, about, node;
  std::string try_this;                   ///< command line to try in another terminal
  Nanoseconds length{};                   ///< time after which everything has been shown
  std::string configuration;              ///< file with blank lines in place of the scenario's own tables
  std::vector<ScenarioProgram> programs;  ///< programs with their copies, sorted by start
  std::vector<ScenarioCommand> commands;  ///< commands; those with a time are in the order of time
  std::vector<ScenarioMoment> moments;
};

/// Reads a scenario of share/ration/scenarios by its name, or a file by a path that ends in .toml. Divides every time
/// by `speed`, also the times in policies. Fails with E1441.
[[nodiscard]] Result<Scenario> read_scenario(const std::string& name, double speed);

/// Returns the names of the scenarios that come with ration.
[[nodiscard]] std::vector<std::string> scenario_names();

/// Returns the path of a scenario that is a program of its own because it needs more than simulated GPUs; empty if the
/// name means no such scenario. The variable RATION must contain the path of this program when the scenario runs.
[[nodiscard]] std::string scenario_program(const std::string& name);

}  // namespace ration::cli
