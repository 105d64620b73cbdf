// Whether the guard can stand in front of the driver in a container, by the files of its image. Used by the hook that
// runs before a container's program starts. Promises: nothing of the image runs; no link in it leads out of it.
#pragma once

#include <string>

#include "adapters/containers/oci.hpp"

namespace ration::adapters {

/// The file that `path` is inside the root file system `root`, as a path of this system: links are followed as the
/// container follows them. Empty: there is none.
[[nodiscard]] std::string resolved_in(const std::string& root, const std::string& path);

/// Why the guard would not be loaded into the container's programs: musl, a C library older than glibc 2.17, another
/// architecture, no C library at all. Empty: it is. A statically linked program is let pass where there is a glibc:
/// what it starts is held.
[[nodiscard]] std::string why_not_held(const Container& container);

}  // namespace ration::adapters
