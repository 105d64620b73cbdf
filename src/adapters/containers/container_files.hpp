// Mounts a container's own book over the placeholder that its CDI device has put there. Used by the hook that runs
// while a container is made. Promises: nothing outside the container's mount namespace changes; no link in the image
// leads the mount elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.hpp"

namespace ration::adapters {

/// The file that lists the libraries which the dynamic linker of a container loads into every program (ld.so(8)).
inline constexpr const char* kPreloadFile = "/etc/ld.so.preload";

/// The places of ration's program and of the daemon's socket in a container.
inline constexpr const char* kContainerProgram = "/.ration/bin/ration";
inline constexpr const char* kContainerSocket = "/.ration/ration.sock";

/// Mounts `file` at `inside` in the mount namespace of `pid`, whose container has its root file system at `root` and
/// has not entered it yet. The mount is writable, without devices and set-uid programs. `guards` gives, for paths in
/// the container, the file of this machine that must lie there: another volume could lie on top. Unless the root is
/// read-only, the folder of kPreloadFile becomes a mount, because a folder above a mount can be renamed. Fails with
/// E1703, also if a link of the image leads to one of these paths: the container's root could replace the link.
[[nodiscard]] Result<void> mount_in(std::int32_t pid, const std::string& root, bool read_only_root,
                                    const std::string& file, const std::string& inside,
                                    const std::map<std::string, std::string>& guards);

}  // namespace ration::adapters
