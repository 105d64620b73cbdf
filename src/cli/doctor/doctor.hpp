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
/// Runs the checks and prints a line for each. Returns exit code 1 if one failed or, with `strict`, if one warned.
Result<int> doctor(const Session& session, const DoctorOptions& options);

}  // namespace ration::cli
