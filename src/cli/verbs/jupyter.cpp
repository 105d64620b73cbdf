// `ration jupyter`: makes kernels under a limit, with the module ration_jupyter of the Python that has Jupyter.
#include <fmt/format.h>

#include <cstdlib>

#include "cli/start/launch.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

/// Returns E1712 if that Python does not have the module.
Result<void> check_module(const std::string& python) {
  const Output ran = output_of(
      {python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('ration_jupyter') is None)"});
  if (ran.exit_code == 0) return {};
  const bool is_missing = ran.exit_code == 127;
  return fail("E1712",
              is_missing ? fmt::format("there is no Python '{}'.", python)
                         : fmt::format("{} has no module ration_jupyter.", python),
              is_missing
                  ? "ration jupyter list --python /path/to/python3"
                  : fmt::format("{} -m pip install ration-*.whl   or name a Python that has the module: --python PATH",
                                shown_command({python})),
              1);
}

}  // namespace

Result<int> jupyter(const Session& session, const JupyterOptions& options) {
  if (options.action == "install" && options.limit.empty())
    return fail("E1712", "a kernel needs a limit.", "ration jupyter install --limit 4GiB --user", 2);
  if (options.action == "uninstall" && options.kernel.empty())
    return fail("E1712", "uninstall needs the name of a kernel.", "ration jupyter list", 2);
  std::vector<std::string> words{options.python, "-m", "ration_jupyter", options.action};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  if (options.action == "install") {
    add("--limit", options.limit);
    add("--name", options.name);
    add("--display-name", options.display_name);
    add("--prefix", options.prefix);
    if (options.user) words.emplace_back("--user");
    if (options.sys_prefix) words.emplace_back("--sys-prefix");
    words.emplace_back("--");
    words.insert(words.end(), options.run_options.begin(), options.run_options.end());
  } else if (options.action == "uninstall") {
    words.push_back(options.kernel);
  }
  if (session.dry_run) {
    fmt::print("{}\n", shown_command(words));
    return 0;
  }
  RATION_TRY(check_module(options.python));
  ::setenv("RATION_PROGRAM", companion("ration").c_str(), 1);  // the kernels must start this ration and no other
  return become(words);
}

}  // namespace ration::cli
