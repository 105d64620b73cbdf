#include "policy/checkpoint.hpp"

#include <fmt/format.h>

#include "driver/cuda_share_abi.hpp"
#include "policy/driver_library.hpp"

namespace ration::policy {
namespace {

using namespace cuda;

constexpr unsigned int kLongestCallMs = 10'000;

class Checkpointer {
 public:
  explicit Checkpointer(const std::string& driver_folder) : driver_(driver_folder, "libcuda.so.1") {}

  [[nodiscard]] Result<void> usable() const {
    CUprocessState state{};
    if (!driver_) return fail("E1403", driver_.problem(), "ration doctor", 1);
    if (driver_.call("cuCheckpointProcessGetState", CUDA_ERROR_NOT_FOUND, 0, &state) == CUDA_ERROR_NOT_FOUND)
      return fail("E1541", "this driver cannot move a program's memory (cuCheckpointProcess*: driver 570 or newer).",
                  "Trim instead: ration trim NAME", 1);
    return {};
  }

  /// False: it has not begun to use the driver, so there is nothing to move.
  [[nodiscard]] bool knows(std::int32_t pid) const {
    CUprocessState state{};
    return driver_.call("cuCheckpointProcessGetState", CUDA_ERROR_NOT_SUPPORTED, pid, &state) !=
           CUDA_ERROR_NOT_INITIALIZED;
  }

  [[nodiscard]] Result<CheckpointOutcome> suspend(const std::vector<std::int32_t>& pids) const {
    CheckpointOutcome outcome;
    std::vector<std::int32_t> locked, moved;
    Result<void> done;
    for (const std::int32_t pid : pids) {
      const auto state = state_of(pid);
      if (!state) {
        done = tl::unexpected(state.error());
      } else if (*state == CU_PROCESS_STATE_RUNNING) {
        CUcheckpointLockArgs wish{};
        wish.timeoutMs = kLongestCallMs;
        done = result(pid, "lock", driver_.call("cuCheckpointProcessLock", CUDA_ERROR_NOT_SUPPORTED, pid, &wish));
      }
      if (!done) break;
      if (*state != CU_PROCESS_STATE_CHECKPOINTED) locked.push_back(pid);
    }
    for (const std::int32_t pid : locked) {
      if (!done) break;
      CUcheckpointCheckpointArgs wish{};
      done = result(pid, "checkpoint",
                    driver_.call("cuCheckpointProcessCheckpoint", CUDA_ERROR_NOT_SUPPORTED, pid, &wish));
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
        CUcheckpointCheckpointArgs wish{};
        (void)driver_.call("cuCheckpointProcessCheckpoint", CUDA_ERROR_NOT_SUPPORTED, back, &wish);
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
      case CUDA_ERROR_NOT_PERMITTED:
        return fail("E1542", fmt::format("the driver does not let this user {} pid {}.", step, pid),
                    "Run the daemon as root, or as the program's own user.", 5);
      case CUDA_ERROR_NOT_READY:
        return fail("E1543",
                    fmt::format("a driver call of pid {} did not end within {} s.", pid, kLongestCallMs / 1000),
                    "It computes: try again when it rests.", 1);
      case CUDA_ERROR_OUT_OF_MEMORY:
        return fail("E1544", fmt::format("the device has no room for the memory of pid {} now.", pid), "ration ps", 4);
      default:
        return fail("E1545",
                    fmt::format("the driver answers error {} to {} of pid {}.", static_cast<int>(answer), step, pid),
                    "ration doctor", 1);
    }
  }

  [[nodiscard]] Result<CUprocessState> state_of(std::int32_t pid) const {
    CUprocessState state{};
    const CUresult answer = driver_.call("cuCheckpointProcessGetState", CUDA_ERROR_NOT_SUPPORTED, pid, &state);
    if (auto good = result(pid, "look at", answer); !good) return tl::unexpected(good.error());
    if (state == CU_PROCESS_STATE_FAILED)
      return fail("E1545", fmt::format("an earlier checkpoint of pid {} failed: the driver has given it up.", pid),
                  fmt::format("Start it again: kill {}", pid), 1);
    return state;
  }

  [[nodiscard]] Result<void> restore(std::int32_t pid) const {
    return result(pid, "restore",
                  driver_.call("cuCheckpointProcessRestore", CUDA_ERROR_NOT_SUPPORTED, pid,
                               static_cast<CUcheckpointRestoreArgs*>(nullptr)));
  }

  void unlock(std::int32_t pid) const {
    CUcheckpointUnlockArgs wish{};
    (void)driver_.call("cuCheckpointProcessUnlock", CUDA_ERROR_NOT_SUPPORTED, pid, &wish);
  }

  Library driver_;
};

}  // namespace

Result<CheckpointOutcome> checkpoint(const std::string& driver_folder, CheckpointAction action,
                                     const std::vector<ProcessIdentity>& processes) {
  const Checkpointer driver(driver_folder);
  if (auto usable = driver.usable(); !usable) return tl::unexpected(usable.error());
  std::vector<std::int32_t> pids;
  for (const ProcessIdentity& process : processes)
    if (const auto now = identity_of(process.pid); now && now->same_as(process) && driver.knows(process.pid))
      pids.push_back(process.pid);
  return action == CheckpointAction::kSuspend ? driver.suspend(pids) : driver.resume(pids);
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

}  // namespace ration::policy
