#include "config/variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/own_folder.hpp"
#include "base/strings.hpp"

namespace ration::config {
namespace {
using Value = Variable::Value;
constexpr const char* kPrefix = "RATION_";

std::string absolute(const std::string& path) {
  std::error_code error;
  const std::string result = std::filesystem::absolute(path, error);
  return error ? path : result;
}

}  // namespace

const std::vector<Variable>& variables() {
  static const std::vector<Variable> all{
      {"RATION_RUNTIME_DIR",
       "folder of the books and slices; default: /run/ration, else $XDG_RUNTIME_DIR/ration, else /tmp/ration-UID, or "
       "/tmp/ration-UID.XXXXXX if /tmp/ration-UID belongs to another user",
       Value::kPath},
      {"RATION_CONFIG", "configuration file read instead of $XDG_CONFIG_HOME/ration/ration.toml", Value::kPath},
      {"RATION_SIM", "simulated node, as for --sim: T4:16GiB*2,A100-40, or the path of a TOML file",
       Value::kTextOrTomlFile},
      {"RATION_SIM_DRIVER",
       "driver of simulated nodes that name no driver: 535, 560-container, or the path of a profile",
       Value::kTextOrTomlFile},
      {"RATION_SOCKET", "socket of the daemon, as for --socket", Value::kPath},
      {"RATION_SIM_DIR", "folder of the simulated node's shared state", Value::kPath},
      {"RATION_SIM_LATENCY", "duration of calls of the simulated driver: cuMemAlloc=132us,context=200ms,kernel=1ms"},
      {"RATION_SIM_FAULT", "calls of the simulated driver that fail: cuMemAlloc:call=3:error=2"},
      {"RATION_IDLE_TRIM", "library: the pool gives unused memory back after this time without a request: 30s"},
      {"RATION_MIN_BLOCK", "library: size to which smaller requests are rounded up: 1MiB"},
      {"RATION_LIBRARY", "Python: libration.so.1 to load instead of the package's own"},
      {"RATION_PROGRAM",
       "Python: path of the program ration to start, instead of the program beside that Python or on PATH"},
      {"RATION_BOOK", "set by `ration run` for the program: its book"},
      {"RATION_ALLOW_UNGOVERNED",
       "set by `ration run --allow-ungoverned` for the program: a child that drops the guard does not get the guard "
       "again"},
      {"RATION_DRIVER_PATH", "set by `ration run --sim` for the program: folder of the driver behind the guard"},
  };
  return all;
}

Result<void> check_variables(char** environment) {
  std::vector<std::string> known;
  for (const Variable& variable : variables()) known.emplace_back(variable.name + std::strlen(kPrefix));
  for (char** entry = environment; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    std::string rest;
    if (name.rfind(kPrefix, 0) == 0)
      rest = name.substr(std::strlen(kPrefix));
    else if (name.size() > 7 && name.find('_') != std::string::npos &&
             distance(name.substr(0, name.find('_') + 1), kPrefix) == 1) {
      rest = name.substr(name.find('_') + 1);  // for example RATON_SIM
      if (std::find(known.begin(), known.end(), rest) == known.end()) continue;
    } else {
      continue;
    }
    if (name.rfind(kPrefix, 0) == 0 && std::find(known.begin(), known.end(), rest) != known.end()) continue;
    const std::string meant = nearest(rest, known);
    if (meant.empty()) continue;
    return fail("E1603", fmt::format("ration has no variable {}, and would ignore it.", name),
                fmt::format("Did you mean {}{}?  unset {}", kPrefix, meant, name), 2);
  }
  return {};
}

void make_paths_absolute() {
  for (const Variable& variable : variables()) {
    const char* given = std::getenv(variable.name);
    const std::string value = given != nullptr ? given : "";
    if (value.empty() || variable.value == Value::kText) continue;
    const std::string meant = variable.value == Value::kPath ? absolute(value) : with_real_path(value);
    ::setenv(variable.name, meant.c_str(), 1);
  }
}

}  // namespace ration::config
