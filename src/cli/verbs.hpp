// The verbs of the command line, one file each. Every function returns the exit code, or the error to print.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

struct RunOptions {
  std::string limit;
  std::string gpu = "0";
  std::string name;
  std::string tenant = "default";
  std::string simulate;   ///< description of a simulated node; empty = the machine's own devices
  bool simulated = false;
  std::string on_deny = "fail";
  std::string account = "device";
  std::string summary = "auto";
  std::vector<std::string> program;
};

Result<int> run(const RunOptions& options);
Result<int> ps(bool json);
Result<int> set(const std::string& name, const std::string& limit, bool yes);
Result<int> why(const std::string& denial);

}  // namespace ration::cli
