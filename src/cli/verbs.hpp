// The verbs of the command line, one file each. A verb returns its exit code, or the error to print.
#pragma once

#include <string>
#include <vector>

#include "cli/session.hpp"
#include "policy/plan.hpp"

namespace CLI {
class App;
}

namespace ration::cli {

struct RunOptions {
  policy::Wish wish;
  std::string summary;  ///< auto | always | never | json:FILE
  bool require_enforced = false;
  bool print_env = false;
  std::string simulated_cuda;  ///< auto | none | 12 | 13 | 12,13
  std::vector<std::string> program;
};
Result<int> run(const Session& session, RunOptions options);
/// `ration env`: the variables that `run` would set, for a shell.
Result<int> env(const Session& session, RunOptions options);

/// `ration sim env`: what puts a program on the simulated node without a limit, for a shell.
Result<int> simulation(const Session& session, const RunOptions& options);

Result<int> ps(const Session& session, const std::string& gpu);
Result<int> explain(const Session& session, const std::string& target, const std::string& gpu);
Result<int> why(const Session& session, const std::string& denial);

struct SetOptions {
  std::string name, limit, guarantee, gpu;
};
Result<int> set(const Session& session, const SetOptions& options);

struct SplitOptions {
  std::string gpu, sizes, ratio, names;
  int into = 0;
  bool off = false;
};
Result<int> split(const Session& session, const SplitOptions& options);

Result<int> fits(const Session& session, const std::string& size, const std::string& gpu);

struct DoctorOptions {
  bool probe = false, strict = false;
  std::vector<std::string> only, skip;
};
Result<int> doctor(const Session& session, const DoctorOptions& options);

struct ConfigOptions {
  std::string action;  ///< init | print | validate | path
  std::string file;
  bool force = false;
};
Result<int> config(const Session& session, const ConfigOptions& options);

struct DemoOptions {
  bool keep = false;
  double speed = 1;
};
Result<int> demo(const Session& session, const DemoOptions& options);

Result<int> help(const CLI::App& app, const std::vector<std::string>& topic);
Result<int> completion(const CLI::App& app, const std::string& shell);
/// Writes the manual pages of all verbs and topics into a folder.
Result<int> manual(const CLI::App& app, const std::string& folder);
/// What one context costs on a device, measured in a process of its own.
std::optional<Bytes> measured_context(const Session& session, const policy::Device& device);
Result<int> measure_context(const Session& session, int index);

}  // namespace ration::cli
