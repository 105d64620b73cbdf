// Adds mounts and variables that put a container under a limit to the command line of the program that starts it, for
// engines without the Container Device Interface. Used by `ration inject`. Each engine is a row of one table.
#pragma once

#include <string>
#include <vector>

#include "adapters/containers/cdi.hpp"
#include "base/result.hpp"

namespace ration::adapters {

/// Returns the engines that take mounts and variables on their command line: docker, podman, bwrap, apptainer.
[[nodiscard]] std::vector<std::string> wrapper_names();
/// Returns true if the engine takes `--device ration.sh/…` where it has CDI.
[[nodiscard]] bool takes_devices(const std::string& engine);

/// Returns the command line: the engine's name, then `words` with `options` inserted where the engine takes options.
/// Fails with E1707 if `words` have no such place.
[[nodiscard]] Result<std::vector<std::string>> with_options(const std::string& engine,
                                                            const std::vector<std::string>& words,
                                                            const std::vector<std::string>& options);

/// Returns the options that give the container `edits` and an existing book. These options start no hook.
[[nodiscard]] std::vector<std::string> options_of(const std::string& engine, const cdi::Edits& edits,
                                                  const std::string& book);

/// Fails with E1707 if the container would outlive the command that its book is made for: `--detach`, `create`.
[[nodiscard]] Result<void> check_foreground(const std::string& engine, const std::vector<std::string>& words);

}  // namespace ration::adapters
