// Moves the device memory of running programs to host memory and back, by the driver's own calls (cuCheckpointProcess*,
// driver 570 and newer). Used by `ration resume` and by the node daemon, which runs it in a process of its own: the
// calls take as long as the copying. Promises: it moves all of the processes or none of them; a process that has ended,
// or whose pid has been reused, is left alone; repeating a completed request does nothing.
//
// A checkpoint can destroy a program: the driver "does not attempt to keep the process in a good state if an error
// (such as the presence of a UVM allocation) is encountered" (README of NVIDIA/cuda-checkpoint). So memory is moved
// only of a kind that was seen to be moved on this machine, with this driver, for a program of ration's own; no option
// overrides this.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"
#include "book/snapshot.hpp"
#include "machine/devices.hpp"

namespace ration::machine {

enum class CheckpointAction { kSuspend, kResume };

struct CheckpointOutcome {
  /// The driver's thread in each process that was moved: its activity is not the program's.
  std::vector<std::int32_t> driver_threads;
};

/// Moves the memory of the processes. `driver_folder` as in query_devices. E1541: this driver has no such calls. E1542:
/// not permitted. E1543: a call of the program did not end within ten seconds. E1544: no room on the device for the
/// memory that has to come back; it stays on the host. E1545: the driver refused, or has lost the process. `may_leave`
/// is called once all of the processes are locked, so that none of them can take memory that is not moved; its error
/// ends the attempt, and they continue.
[[nodiscard]] Result<CheckpointOutcome> checkpoint(
    const std::string& driver_folder, CheckpointAction action, const std::vector<ProcessIdentity>& processes,
    const std::function<Result<void>()>& may_leave = [] { return Result<void>(); });

/// The memory that `ration doctor --try-suspend` saw moved to the host and back, with its contents, on a device with
/// its driver.
struct Tried {
  bool plain = false;
  bool shared = false;  ///< memory that another process had opened, after both were moved
};
[[nodiscard]] Tried tried_suspension(const Device& device, const std::string& driver_version,
                                     const std::string& runtime_folder);
void remember_suspension(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                         const Tried& tried);

/// Checks that nothing is known to prevent moving a workload's processes: the trials on its devices, persistence mode,
/// and memory that is not moved. `plain_is_moved` skips the trial, as on a simulated node, whose driver is ration's
/// own: it runs only programs made for it, so none can be lost, and demos and tests need no preparation. E1547.
[[nodiscard]] Result<void> may_be_moved(const book::BookSnapshot& book, const Machine& machine,
                                        const std::string& runtime_folder, bool plain_is_moved);

/// Returns true if the driver lists one of them on a device; it does not list a process whose memory is on the host.
[[nodiscard]] bool is_on_device(const Machine& machine, const std::vector<ProcessIdentity>& processes);

}  // namespace ration::machine
