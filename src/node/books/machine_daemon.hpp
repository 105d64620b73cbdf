// The daemon of the machine: the one of root whose own folder is /run/ration. Daemons of other users leave its GPUs to
// it, since two daemons would write different limits into the same books.
#pragma once

#include <string>
#include <vector>

#include "machine/devices.hpp"

namespace ration::node {

/// Returns true if this is the daemon of the machine; `own_folder` is the folder of this daemon's books.
[[nodiscard]] bool is_of_machine(const std::string& own_folder);

/// Enters the devices of the machine's daemon in the machine's folder, where other daemons find them.
void publish_governed(const std::vector<machine::Device>& devices);

/// Returns true if the daemon of the machine runs and governs one of the devices. Always false for a daemon of root.
[[nodiscard]] bool machine_daemon_governs(const std::vector<machine::Device>& devices);

/// Returns true if the daemon of the machine has governed one of these devices since the machine started, and does not
/// run now.
[[nodiscard]] bool machine_daemon_is_missing(const std::vector<std::string>& uuids);

/// Returns true if a daemon may leave a folder to the process that has locked `lock`. A daemon of root leaves nothing
/// to a process of another user.
[[nodiscard]] bool is_honoured(const std::string& lock);

}  // namespace ration::node
