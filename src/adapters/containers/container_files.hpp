// Mounts a container's own book over the placeholder that the container's CDI device has mounted. Used by the hook that
// runs while a container is made. Promises: nothing outside the container's mount namespace changes; no link in the
// image leads the mount elsewhere.
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

/// Mounts `file` at `inside` in the mount namespace of process `pid`. The root file system of the container lies at
/// `root`; the process has not entered it yet. The mount is writable, without devices and set-uid programs. `guards`
/// maps paths in the container to the files of this machine that must lie there. First checks that they do, because
/// another volume could cover such a file. Unless the root is read-only, makes the folder of kPreloadFile a mount,
/// because the container could otherwise rename that folder. Fails with E1703 if something cannot be mounted, if
/// another file lies at a path of `guards`, or if a link of the image leads to one of these paths: the container's root
/// user could replace the link.
[[nodiscard]] Result<void> mount_in(std::int32_t pid, const std::string& root, bool read_only_root,
                                    const std::string& file, const std::string& inside,
                                    const std::map<std::string, std::string>& guards);

}  // namespace ration::adapters
