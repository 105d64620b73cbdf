// A container as its runtime describes it to a hook: the state on standard input and the bundle's config.json (OCI
// runtime specification 1.0, "State" and "POSIX-platform Hooks"), and its name where the engine keeps that in files of
// its own. Used by the hooks that the CDI specifications name. Promises: any bytes may be given; nothing is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::adapters {

struct Container {
  std::string id;      ///< as its engine made it
  std::string engine;  ///< podman, docker, kubernetes, nerdctl; `container`: its state does not tell
  std::string name;    ///< as a person knows it; the beginning of the id where the engine does not tell
  std::string image;   ///< empty: the engine does not tell
  std::string root;    ///< folder of its root file system, absolute
  bool read_only_root = false;
  std::int32_t pid = 0;              ///< of its first process, in the hook's pid namespace; 0: it has none any more
  std::vector<std::string> program;  ///< what it starts, with arguments
  std::vector<std::string> devices;  ///< of ration, in the order of their hooks: `tenant=nlp`
  std::string working_folder, path;  ///< inside it: where that starts, and its PATH
};

/// `state`: what the runtime writes to the hook. E1701: it is not such a state, or its bundle cannot be read.
[[nodiscard]] Result<Container> read_container(const std::string& state);

}  // namespace ration::adapters
