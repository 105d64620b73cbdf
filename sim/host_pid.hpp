// The translation of process numbers from the pid namespace of a container to that of this process, as the kernel
// driver translates them. Used by the simulated NVML.
#pragma once

#include <cstdint>

namespace ration::sim {

/// Returns the number that a process has in this process's pid namespace. `pid` is its number in the namespace with the
/// inode `pid_namespace`. Returns 0 if that namespace is not visible from here, for example because it is another
/// container's.
[[nodiscard]] std::int32_t pid_here(std::int32_t pid, std::uint64_t pid_namespace);

}  // namespace ration::sim
