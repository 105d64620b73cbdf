// Writes a second file for Docker Compose. The second file gives services a device; the user's own files stay as they
// are. Used by `ration inject compose` and by the text of `ration snippet compose`. Nothing here parses YAML: `docker
// compose config` lists the services of the user's files.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::adapters {

/// Returns the lines that give a service these devices.
[[nodiscard]] std::string compose_devices(const std::vector<std::string>& devices);

/// Returns a file that gives each of the services the device, and nothing else. Fails with E1711 if `services` is empty
/// or has an invalid name.
[[nodiscard]] Result<std::string> compose_override(const std::vector<std::string>& services, const std::string& device);

/// The words after `docker compose`: its own options, and its command with the command's arguments.
struct ComposeWords {
  std::vector<std::string> options, command;
};
/// Splits the words. Fails with E1711 if they name no file (Compose would then read the second file alone) or no
/// command.
[[nodiscard]] Result<ComposeWords> read_compose_words(const std::vector<std::string>& words);

}  // namespace ration::adapters
