// Signals to all processes of a program. Used by `ration stop` and by the daemon. Promise: a later process that got the
// pid of an ended one is never signalled.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/process.hpp"

namespace ration::machine {

/// Adds the descendants of a process.
void add_descendants(std::int32_t pid, std::vector<ProcessIdentity>& found);

/// Returns these processes and their descendants, without those of users for which `is_owner` is false: a book can name
/// any pid.
[[nodiscard]] std::vector<ProcessIdentity> with_descendants_of(const std::vector<std::int32_t>& pids,
                                                               const std::function<bool(std::uint32_t user)>& is_owner);

/// Removes the processes that have ended, and this process.
void keep_alive_only(std::vector<ProcessIdentity>& processes);

/// Sends a signal to every process that still runs. Returns the first one that this user may not signal; nothing if all
/// were signalled.
[[nodiscard]] std::optional<std::int32_t> send_signal(const std::vector<ProcessIdentity>& processes, int signal);

}  // namespace ration::machine
