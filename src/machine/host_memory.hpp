// Determines the size of host memory, and how much of it is free for memory that moves from a device to the host: on
// the whole machine, and for one process, because such memory is charged to the memory cgroup of the process. Used for
// limits of pinned memory, and by the node daemon before it suspends a program.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.hpp"

namespace ration::machine {

/// Returns all the memory of the machine (MemTotal).
[[nodiscard]] Bytes host_memory_total();
/// Returns the bytes that programs can still take without swapping (MemAvailable).
[[nodiscard]] Bytes host_memory_available();

struct GroupRoom {
  std::string group;  ///< the cgroup's folder
  Bytes left;         ///< bytes left up to its limit; reclaimable memory counts as free
};

/// Returns the smallest room among the process's memory cgroup and its parents, version 2 or 1; absent if none of them
/// has a visible limit. `root` is where cgroups are mounted, `listed` the content of /proc/PID/cgroup.
[[nodiscard]] std::optional<GroupRoom> room_in_memory_group(const std::string& listed, const std::string& root);
[[nodiscard]] std::optional<GroupRoom> room_in_memory_group(std::int32_t pid);

}  // namespace ration::machine
