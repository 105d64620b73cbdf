// A process of a container by the number that this process's namespace has for it, as the kernel driver knows it.
// Used by the simulated NVML.
#pragma once

#include <cstdint>

namespace ration::sim {

/// `pid` of the pid namespace with that inode; 0 where that namespace cannot be seen from here, as
/// the kernel has it for another container.
[[nodiscard]] std::int32_t pid_here(std::int32_t pid, std::uint64_t pid_namespace);

}  // namespace ration::sim
