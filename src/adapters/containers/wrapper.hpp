// The command lines of programs that start containers, with what a container gets under a limit typed into them: for
// whoever has no Container Device Interface. Used by `ration inject`. One table row an engine.
#pragma once

#include <string>
#include <vector>

#include "adapters/containers/cdi.hpp"
#include "base/result.hpp"

namespace ration::adapters {

/// Engines that take mounts and variables on their command line: docker, podman, bwrap, apptainer.
[[nodiscard]] std::vector<std::string> wrapper_names();
/// Those of them that take `--device ration.sh/…` where they have CDI.
[[nodiscard]] bool takes_devices(const std::string& engine);

/// `words` behind the engine's name, with these options where that engine takes them. E1707: there is no such place.
[[nodiscard]] Result<std::vector<std::string>> with_options(const std::string& engine,
                                                            const std::vector<std::string>& words,
                                                            const std::vector<std::string>& options);

/// The options for `edits` and a book that is there already. No hook runs.
[[nodiscard]] std::vector<std::string> options_of(const std::string& engine, const cdi::Edits& edits,
                                                  const std::string& book);

/// E1707 for what lets the container outlive the command, or what its book was made for: --detach.
[[nodiscard]] Result<void> check_foreground(const std::string& engine, const std::vector<std::string>& words);

}  // namespace ration::adapters
