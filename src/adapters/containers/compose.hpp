// Docker Compose: a second file beside those of the user gives services a device. Used by `ration inject compose`, and
// by the text of `ration snippet compose`. YAML is written here and never read: `docker compose config` tells services.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::adapters {

/// The lines of a service that give it these devices.
[[nodiscard]] std::string compose_devices(const std::vector<std::string>& devices);

/// A file that gives each of the services the device, and nothing else. E1711: there is none, or a name that no
/// service has.
[[nodiscard]] Result<std::string> compose_override(const std::vector<std::string>& services, const std::string& device);

/// What follows `docker compose`: its own options, and the command with everything behind it.
struct ComposeWords {
  std::vector<std::string> options, command;
};
/// E1711: no file is named (a further one would be the only one), or there is no command.
[[nodiscard]] Result<ComposeWords> read_compose_words(const std::vector<std::string>& words);

}  // namespace ration::adapters
