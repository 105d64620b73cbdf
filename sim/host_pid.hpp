// Translates the number of a process in a container to that of this process's namespace, as the kernel driver does.
// Used by the simulated NVML.
#pragma once

#include <cstdint>

namespace ration::sim {

/// Returns the number here of `pid` in the pid namespace with that inode; 0 if that namespace cannot be seen from here,
/// as for another container.
[[nodiscard]] std::int32_t pid_here(std::int32_t pid, std::uint64_t pid_namespace);

}  // namespace ration::sim
