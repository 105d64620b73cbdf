// Device memory of running programs moved to host memory and back, by the driver's own calls (cuCheckpointProcess*,
// driver 570 and newer). Used by `ration resume` and by the node daemon, which does it in a process of its own: the
// calls take as long as the copying does. Promises: all of the processes or none of them; a process that has ended or
// whose pid is somebody else's by now is left alone; asking again for what is done already does nothing.
#pragma once

#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"
#include "policy/devices.hpp"

namespace ration::policy {

enum class CheckpointAction { kSuspend, kResume };

struct CheckpointOutcome {
  /// Of each process that was moved the thread in which the driver works: its stirrings are not the program's.
  std::vector<std::int32_t> driver_threads;
};

/// `driver_folder`: as look_at_machine has it. E1541: this driver has no such calls. E1542: not permitted. E1543: a
/// call of the program did not end within ten seconds. E1544: no room on the device for what has to come back; it stays
/// away. E1545: the driver refused, or the process is lost to it.
[[nodiscard]] Result<CheckpointOutcome> checkpoint(const std::string& driver_folder, CheckpointAction action,
                                                   const std::vector<ProcessIdentity>& processes);

/// Whether the driver lists one of them on a device: whose memory is on the host is not among those that it lists.
[[nodiscard]] bool is_on_device(const Machine& machine, const std::vector<ProcessIdentity>& processes);

}  // namespace ration::policy
