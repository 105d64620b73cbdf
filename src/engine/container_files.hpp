// The file of one container that its own book is: put over the placeholder that its CDI device mounts. Used by the hook
// that runs while a container is made. Promises: nothing outside the container's mount namespace changes; no link of
// the image leads elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace ration::engine {

/// Mounts `file` at `inside` in the mount namespace of `pid`, in which the container's root file system lies at `root`
/// and was not entered yet; writable there, without devices and set-uid programs. E1703.
[[nodiscard]] Result<void> mount_in(std::int32_t pid, const std::string& root, const std::string& file,
                                    const std::string& inside);

}  // namespace ration::engine
