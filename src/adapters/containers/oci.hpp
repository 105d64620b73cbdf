// A container as its runtime describes it to a hook: the state on standard input, the bundle's config.json (OCI runtime
// specification 1.0, "State" and "POSIX-platform Hooks"), and its name if the engine keeps the name in files of its
// own. Used by the hooks that the CDI specifications name. Promises: any bytes may be given; nothing is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::adapters {

struct Container {
  std::string id;      ///< the container's id in its engine
  std::string engine;  ///< podman, docker, kubernetes, nerdctl; `container` if the engine is not known
  std::string name;    ///< name for people; the beginning of the id if the engine keeps no name
  std::string image;   ///< empty if the engine does not report it
  std::string root;    ///< absolute path of its root file system
  bool read_only_root = false;
  std::int32_t pid = 0;              ///< its first process, in the hook's pid namespace; 0 if that has ended
  std::vector<std::string> program;  ///< the program that it starts, with arguments
  std::vector<std::string> devices;  ///< its devices of ration, in the order of their hooks: `tenant=nlp`
  std::string working_folder, path;  ///< where the program starts, and its PATH, both inside the container
};

/// Reads a container from `state`, which the runtime writes to the hook. Fails with E1701 if `state` is not the state
/// of a container, or if the container's bundle cannot be read.
[[nodiscard]] Result<Container> read_container(const std::string& state);

}  // namespace ration::adapters
