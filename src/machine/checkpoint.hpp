// Moves the device memory of running programs to host memory and back, with the driver's own calls
// (cuCheckpointProcess*, driver 570 and newer). Used by `ration resume` and by the node daemon. The daemon makes these
// calls in a separate process, because each call lasts as long as the copying. Promises: either the memory of all given
// processes is moved or that of none; a process that has ended, or whose pid has been reused, is not touched; repeating
// a completed request does nothing.
//
// A checkpoint can destroy a program: the driver "does not attempt to keep the process in a good state if an error
// (such as the presence of a UVM allocation) is encountered" (README of NVIDIA/cuda-checkpoint). So ration moves a kind
// of memory only after a trial on this machine, with this driver, has moved that kind for one of ration's own programs.
// No option overrides this rule.
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
  /// The driver's thread in each moved process; its activity does not count as the program's.
  std::vector<std::int32_t> driver_threads;
};

/// Moves the memory of the processes. `driver_folder` is as in query_devices(). Calls `may_leave` once all processes
/// are locked, so that none of them can take more memory. If `may_leave` fails, nothing is moved and the processes
/// continue. Fails with E1541 if this driver has no such calls, E1542 if this user may not move these processes, E1543
/// if a call of the program did not end within ten seconds, E1544 if the device has no room for returning memory, which
/// then stays on the host, E1545 if the driver failed or has lost the process.
[[nodiscard]] Result<CheckpointOutcome> checkpoint(
    const std::string& driver_folder, CheckpointAction action, const std::vector<ProcessIdentity>& processes,
    const std::function<Result<void>()>& may_leave = [] { return Result<void>(); });

/// The kinds of memory that `ration doctor --try-suspend` has moved to the host and back, with its contents, on a
/// device with this driver.
struct Tried {
  bool plain = false;
  bool shared = false;  ///< memory that another process had opened; both processes were moved
};
[[nodiscard]] Tried tried_suspension(const Device& device, const std::string& driver_version,
                                     const std::string& runtime_folder);
void remember_suspension(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                         const Tried& tried);

/// Checks that nothing known prevents moving a workload's processes: a failed or missing trial on its devices,
/// persistence mode, or memory that the driver does not move. `plain_is_moved` says that plain memory needs no trial,
/// as on a simulated node: no user's program can be lost there, because the driver runs only ration's own programs, and
/// demos and tests need no preparation. Fails with E1547.
[[nodiscard]] Result<void> may_be_moved(const book::BookSnapshot& book, const Machine& machine,
                                        const std::string& runtime_folder, bool plain_is_moved);

/// Returns true if the driver lists one of the processes on a device; it does not list a process whose memory is on the
/// host.
[[nodiscard]] bool is_on_device(const Machine& machine, const std::vector<ProcessIdentity>& processes);

}  // namespace ration::machine
