// The verb that examines an installation.
#pragma once

#include <string>
#include <vector>

#include "cli/session/session.hpp"

namespace ration::cli {

struct DoctorOptions {
  bool probe = false, try_suspend = false, strict = false;
  std::vector<std::string> only, skip;
};
/// Runs the checks and prints a line for each. Exit code 1 where one failed, with `strict` where one warned.
Result<int> doctor(const Session& session, const DoctorOptions& options);

}  // namespace ration::cli
