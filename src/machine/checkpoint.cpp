#include "machine/checkpoint.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/command.hpp"
#include "base/say.hpp"
#include "driver/cuda_share_abi.hpp"
#include "machine/driver_library.hpp"
#include "machine/measured.hpp"

namespace ration::machine {
namespace {

using namespace cuda;

constexpr unsigned int kMaxCallMs = 10'000;

class Checkpointer {
 public:
  explicit Checkpointer(const std::string& driver_folder) : driver_(driver_folder, "libcuda.so.1") {}

  [[nodiscard]] Result<void> usable() const {
    CUprocessState state{};
    if (!driver_) return fail("E1403", driver_.problem(), "ration doctor", 1);
    if (driver_.call("cuCheckpointProcessGetState", CUDA_ERROR_NOT_FOUND, 0, &state) == CUDA_ERROR_NOT_FOUND)
      return fail("E1541", say<"suspension.no_function">(), "Trim instead: ration trim NAME", 1);
    return {};
  }

  /// Returns false if the process has not begun to use the driver and so has nothing to move.
  [[nodiscard]] bool knows(std::int32_t pid) const {
    CUprocessState state{};
    return driver_.call("cuCheckpointProcessGetState", CUDA_ERROR_NOT_SUPPORTED, pid, &state) !=
           CUDA_ERROR_NOT_INITIALIZED;
  }

  [[nodiscard]] Result<CheckpointOutcome> suspend(const std::vector<std::int32_t>& pids,
                                                  const std::function<Result<void>()>& may_leave) const {
    CheckpointOutcome outcome;
    std::vector<std::int32_t> locked, moved;
    Result<void> done;
    for (const std::int32_t pid : pids) {
      const auto state = state_of(pid);
      if (!state) {
        done = tl::unexpected(state.error());
      } else if (*state == CU_PROCESS_STATE_RUNNING) {
        CUcheckpointLockArgs arguments{};
        arguments.timeoutMs = kMaxCallMs;
        done = result(pid, "lock", driver_.call("cuCheckpointProcessLock", CUDA_ERROR_NOT_SUPPORTED, pid, &arguments));
      }
      if (!done) break;
      if (*state != CU_PROCESS_STATE_CHECKPOINTED) locked.push_back(pid);
    }
    if (done) done = may_leave();
    for (const std::int32_t pid : locked) {
      if (!done) break;
      CUcheckpointCheckpointArgs arguments{};
      done = result(pid, "checkpoint",
                    driver_.call("cuCheckpointProcessCheckpoint", CUDA_ERROR_NOT_SUPPORTED, pid, &arguments));
      if (done) moved.push_back(pid);
    }
    if (done) {
      for (const std::int32_t pid : pids) {
        int thread = 0;
        if (driver_.call("cuCheckpointProcessGetRestoreThreadId", CUDA_ERROR_NOT_SUPPORTED, pid, &thread) ==
            CUDA_SUCCESS)
          outcome.driver_threads.push_back(thread);
      }
      return outcome;
    }
    for (const std::int32_t pid : moved) (void)restore(pid);
    for (const std::int32_t pid : locked) unlock(pid);
    return tl::unexpected(done.error());
  }

  [[nodiscard]] Result<CheckpointOutcome> resume(const std::vector<std::int32_t>& pids) const {
    std::vector<std::int32_t> restored;
    for (const std::int32_t pid : pids) {
      const auto state = state_of(pid);
      Result<void> done = state ? Result<void>() : tl::unexpected(state.error());
      if (done && *state == CU_PROCESS_STATE_CHECKPOINTED) done = restore(pid);
      if (done) {
        restored.push_back(pid);
        continue;
      }
      for (const std::int32_t back : restored) {
        CUcheckpointCheckpointArgs arguments{};
        (void)driver_.call("cuCheckpointProcessCheckpoint", CUDA_ERROR_NOT_SUPPORTED, back, &arguments);
      }
      return tl::unexpected(done.error());
    }
    for (const std::int32_t pid : restored) unlock(pid);
    return CheckpointOutcome{};
  }

 private:
  [[nodiscard]] static Result<void> result(std::int32_t pid, const char* step, CUresult answer) {
    switch (answer) {
      case CUDA_SUCCESS:
        return {};
      case CUDA_ERROR_OPERATING_SYSTEM:  // R580 returns it to an owner who is not root (docs/benchmarks.md, H200)
        if (::geteuid() == 0) break;
        [[fallthrough]];
      case CUDA_ERROR_NOT_PERMITTED:
        return fail("E1542", say<"checkpoint.not_permitted">("step"_is(step), "pid"_is(pid)), "Run the daemon as root.",
                    5);
      case CUDA_ERROR_NOT_READY:
        return fail("E1543", say<"checkpoint.too_slow">("pid"_is(pid), "count"_is(kMaxCallMs / 1000)),
                    "Retry when the program is idle.", 1);
      case CUDA_ERROR_OUT_OF_MEMORY:
        return fail("E1544", say<"checkpoint.device_full">("pid"_is(pid)), "ration ps", 4);
      default:
        break;
    }
    return fail("E1545", say<"checkpoint.failed">("error"_is(static_cast<int>(answer)), "step"_is(step), "pid"_is(pid)),
                "ration doctor", 1);
  }

  [[nodiscard]] Result<CUprocessState> state_of(std::int32_t pid) const {
    CUprocessState state{};
    const CUresult answer = driver_.call("cuCheckpointProcessGetState", CUDA_ERROR_NOT_SUPPORTED, pid, &state);
    RATION_TRY(result(pid, "look at", answer));
    if (state == CU_PROCESS_STATE_FAILED)
      return fail("E1545", say<"checkpoint.given_up">("pid"_is(pid)), fmt::format("Start it again: kill {}", pid), 1);
    return state;
  }

  [[nodiscard]] Result<void> restore(std::int32_t pid) const {
    const CUresult answer = driver_.call("cuCheckpointProcessRestore", CUDA_ERROR_NOT_SUPPORTED, pid,
                                         static_cast<CUcheckpointRestoreArgs*>(nullptr));
    // The driver keeps returning this error after a restore that found no room (NVIDIA/cuda-checkpoint issue 44).
    if (answer == CUDA_ERROR_OPERATING_SYSTEM)
      return fail("E1545", say<"checkpoint.not_restored">("pid"_is(pid)), fmt::format("Start it again: kill {}", pid),
                  1);
    return result(pid, "restore", answer);
  }

  void unlock(std::int32_t pid) const {
    CUcheckpointUnlockArgs arguments{};
    (void)driver_.call("cuCheckpointProcessUnlock", CUDA_ERROR_NOT_SUPPORTED, pid, &arguments);
  }

  Library driver_;
};

}  // namespace

Result<CheckpointOutcome> checkpoint(const std::string& driver_folder, CheckpointAction action,
                                     const std::vector<ProcessIdentity>& processes,
                                     const std::function<Result<void>()>& may_leave) {
  const Checkpointer driver(driver_folder);
  RATION_TRY(driver.usable());
  std::vector<std::int32_t> pids;
  for (const ProcessIdentity& process : processes)
    if (const auto now = identity_of(process.pid); now && now->same_as(process) && driver.knows(process.pid))
      pids.push_back(process.pid);
  return action == CheckpointAction::kSuspend ? driver.suspend(pids, may_leave) : driver.resume(pids);
}

namespace {

std::string tried_file(const std::string& runtime_folder) { return runtime_folder + "/suspension-tried.json"; }

Error cannot_be_moved(Message what, std::string fix) { return {"E1547", std::move(what), std::move(fix), 4}; }

}  // namespace

Tried tried_suspension(const Device& device, const std::string& driver_version, const std::string& runtime_folder) {
  const auto found = measured(tried_file(runtime_folder), device, driver_version);
  return found.is_object() ? Tried{found.value("plain", false), found.value("shared", false)} : Tried{};
}

void remember_suspension(const Device& device, const std::string& driver_version, const std::string& runtime_folder,
                         const Tried& tried) {
  remember(tried_file(runtime_folder), device, driver_version, {{"plain", tried.plain}, {"shared", tried.shared}});
}

Result<void> may_be_moved(const book::BookSnapshot& book, const Machine& machine, const std::string& runtime_folder,
                          bool plain_is_moved) {
  const std::string trim = command({"trim", book.name}) + "   asks it to give back its unused memory";
  bool shared_is_moved = true;
  for (const auto& account : book.accounts) {
    const auto device = std::find_if(machine.devices.begin(), machine.devices.end(),
                                     [&](const Device& each) { return each.bytes == account.device; });
    if (device == machine.devices.end())
      return tl::unexpected(cannot_be_moved(say<"suspension.device_elsewhere">("workload"_is(book.name)), trim));
    const Tried tried = tried_suspension(*device, machine.driver_version, runtime_folder);
    shared_is_moved = shared_is_moved && tried.shared;
    if (!tried.plain && !plain_is_moved)
      return tl::unexpected(
          cannot_be_moved(say<"suspension.untried">("driver"_is(machine.driver_version), "gpu"_is(device->index),
                                                    "device"_is(device->name)),
                          command({"doctor", "--try-suspend"}) + "   tries it with a test program"));
    if (device->persistence == false)
      return tl::unexpected(
          cannot_be_moved(say<"suspension.no_persistence">("gpu"_is(device->index), "device"_is(device->name)),
                          fmt::format("As root: nvidia-smi -i {} -pm 1, or run nvidia-persistenced", device->index)));
  }
  for (const auto& process : book.processes) {
    if (process.has(book::Unmovable::kManaged))
      return tl::unexpected(
          cannot_be_moved(say<"suspension.managed_memory">("pid"_is(process.identity.pid), "workload"_is(book.name),
                                                           "command"_is(process.command)),
                          trim));
    if (process.has(book::Unmovable::kShared) && !shared_is_moved)
      return tl::unexpected(cannot_be_moved(
          say<"suspension.shared_memory">("pid"_is(process.identity.pid), "workload"_is(book.name),
                                          "command"_is(process.command), "driver"_is(machine.driver_version)),
          trim + "; with driver 610 or newer 'ration doctor --try-suspend' can show whether such memory is moved"));
  }
  return {};
}

bool is_on_device(const Machine& machine, const std::vector<ProcessIdentity>& processes) {
  for (const Device& device : machine.devices) {
    if (!device.processes) continue;
    for (const auto& listed : *device.processes)
      for (const ProcessIdentity& process : processes)
        if (listed.pid == process.pid) return true;
  }
  return false;
}

}  // namespace ration::machine
