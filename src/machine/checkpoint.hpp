// Device memory of running programs moved to host memory and back, by the driver's own calls (cuCheckpointProcess*,
// driver 570 and newer). Used by `ration resume` and by the node daemon, which does it in a process of its own: the
// calls take as long as the copying does. Promises: all of the processes or none of them; a process that has ended or
// whose pid is somebody else's by now is left alone; asking again for what is done already does nothing.
//
// A checkpoint can destroy a program: the driver "does not attempt to keep the process in a good state if an error
// (such as the presence of a UVM allocation) is encountered" (README of NVIDIA/cuda-checkpoint). So nothing is moved
// that was not seen to be moved here, with this driver, by a program of ration's own; there is no option to do it all
// the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"
#include "ledger/snapshot.hpp"
#include "machine/devices.hpp"

namespace ration::machine {

enum class CheckpointAction { kSuspend, kResume };

struct CheckpointOutcome {
  /// Of each process that was moved the thread in which the driver works: its stirrings are not the program's.
  std::vector<std::int32_t> driver_threads;
};

/// `driver_folder`: as query_devices has it. E1541: this driver has no such calls. E1542: not permitted. E1543: a
/// call of the program did not end within ten seconds. E1544: no room on the device for what has to come back; it stays
/// away. E1545: the driver refused, or the process is lost to it. `may_leave`: asked once all of the processes are
/// locked, so that none of them can come to have what is not moved; its error ends the attempt, and they go on.
[[nodiscard]] Result<CheckpointOutcome> checkpoint(
    const std::string& driver_folder, CheckpointAction action, const std::vector<ProcessIdentity>& processes,
    const std::function<Result<void>()>& may_leave = [] { return Result<void>(); });

/// What `ration doctor --try-suspend` saw moved to the host and back, with its contents, on a device with its driver.
struct Tried {
  bool plain = false;
  bool shared = false;  ///< memory that another process had opened, and both were moved
};
[[nodiscard]] Tried tried_suspension(const Device& device, const std::string& driver_version,
                                     const std::string& runtime_folder);
void remember_suspension(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                         const Tried& tried);

/// Whether nothing that a workload's processes have is known to be in the way: what was tried on its devices,
/// persistence mode, and memory that is not moved. `plain_is_moved`: without a trial, as on a simulated node, whose
/// driver is ration's own: no program of anybody's can be lost that was not made for it, and demos and tests need no
/// preparation. E1547.
[[nodiscard]] Result<void> may_be_moved(const ledger::BookSnapshot& book, const Machine& machine,
                                        const std::string& runtime_folder, bool plain_is_moved);

/// Whether the driver lists one of them on a device: whose memory is on the host is not among those that it lists.
[[nodiscard]] bool is_on_device(const Machine& machine, const std::vector<ProcessIdentity>& processes);

}  // namespace ration::machine
