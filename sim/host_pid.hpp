// The translation of a process number in a container to the pid namespace of this process, as the kernel driver does
// it. Used by the simulated NVML.
#pragma once

#include <cstdint>

namespace ration::sim {

/// Returns the number in this process's pid namespace of `pid` in the namespace with that inode, or 0 if that namespace
/// is not visible from here, like another container's.
[[nodiscard]] std::int32_t pid_here(std::int32_t pid, std::uint64_t pid_namespace);

}  // namespace ration::sim
