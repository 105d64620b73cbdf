// Determines from the files of an image whether the guard can stand in front of the driver in its container. Used by
// the hook that runs before a container's program starts. Promises: nothing of the image runs; no link in it leads out
// of it.
#pragma once

#include <string>

#include "adapters/containers/oci.hpp"

namespace ration::adapters {

/// Returns the file at `path` inside the root file system `root`, as a path of this machine; empty if there is none.
/// Resolves links as the container would.
[[nodiscard]] std::string resolved_in(const std::string& root, const std::string& path);

/// Returns why the guard cannot be loaded into the container's programs: musl, a glibc older than 2.17, another
/// architecture, no glibc at all; empty if it can. Accepts a statically linked program in an image with glibc, because
/// the guard is loaded into the programs that it starts.
[[nodiscard]] std::string why_not_held(const Container& container);

}  // namespace ration::adapters
