// Finds settings that are valid but cannot do what they seem to be written for. `ration config validate` shows them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

/// What a machine tells of names in a configuration.
struct KnownNames {
  std::function<bool(const std::string&)> is_user, is_group;
  std::function<bool(const std::string&)> is_file;  ///< true also if the caller may not look there
};

/// Returns users, groups and files that the machine does not have, and tenants and policies that never apply because an
/// earlier one fits every user.
[[nodiscard]] std::vector<FileProblem> doubts(const Configuration& configuration, const KnownNames& known);

}  // namespace ration::config
