// The file of one container that its own book is: put over the placeholder that its CDI device mounts. Used by the hook
// that runs while a container is made. Promises: nothing outside the container's mount namespace changes; no link of
// the image leads elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.hpp"

namespace ration::adapters {

/// What the dynamic linker of a container loads into every program (ld.so(8)).
inline constexpr const char* kPreloadFile = "/etc/ld.so.preload";

/// Where a container finds ration itself, and the daemon's socket for containers.
inline constexpr const char* kContainerProgram = "/.ration/bin/ration";
inline constexpr const char* kContainerSocket = "/.ration/ration.sock";

/// Mounts `file` at `inside` in the mount namespace of `pid`, in which the container's root file system lies at `root`
/// and was not entered yet; writable there, without devices and set-uid programs. `guards`: by the path inside, the
/// file of this system that has to lie there: another volume may lie on top. The folder of kPreloadFile becomes a mount
/// of its own, since a folder above a mount can be renamed; not under a read-only root, where nothing is. E1703: also
/// where a link of the image leads to one of them, which the container's root could replace.
[[nodiscard]] Result<void> mount_in(std::int32_t pid, const std::string& root, bool read_only_root,
                                    const std::string& file, const std::string& inside,
                                    const std::map<std::string, std::string>& guards);

}  // namespace ration::adapters
