// Checkpoints of any process on the node. The driver calls of a locked process wait. A checkpoint moves the process's
// device memory to the host, which frees bytes on the devices. A restore takes these bytes again; the addresses stay
// the same.
//
// The rules follow NVIDIA's description (driver API, "CUDA Checkpointing"): the caller needs no cuInit; a lock waits at
// most timeoutMs for the calls in progress, and leaves the process running on a timeout; a restore leaves the process
// locked. The description leaves some cases open. Here a call returns "not permitted" (800) for another user's process,
// since /proc hides such a process from the real driver; "not initialised" (3) for a process that never called cuInit;
// "invalid value" (1) for a pid without a process; and CUDA_ERROR_UNKNOWN for a process that has failed. Checkpoints to
// storage that the caller provides (CUDA 13.4) are not supported.
//
// Depending on the driver's profile, a checkpoint can destroy the process. A process with memory that the driver does
// not move is FAILED afterwards. After a restore that found no room, every later restore may return
// CUDA_ERROR_OPERATING_SYSTEM. Without persistence mode a restore "requires cuInit to have been called before
// execution" (driver API); NVIDIA/cuda-checkpoint issue 25 shows a checkpoint that returned 800 and killed the process.
//
// A thread that locks its own process would wait for itself, so its calls return CUDA_ERROR_ILLEGAL_STATE.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "driver.hpp"
#include "driver/cuda_share_abi.hpp"
#include "steps.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

struct Target {
  Turnstile* turnstile = nullptr;
  ProcessIdentity identity;
};

CUresult find(int pid, Target& out) {
  Node* node = Node::get();
  if (node == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  char path[32];
  struct stat status {};
  std::snprintf(path, sizeof path, "/proc/%d", pid);
  if (pid <= 0 || ::stat(path, &status) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool own = ::geteuid() == status.st_uid;
  if (::geteuid() != 0 && !own) return CUDA_ERROR_NOT_PERMITTED;
  if (::geteuid() != 0 && !node->spec().driver.checkpoint_by_owner) return CUDA_ERROR_OPERATING_SYSTEM;  // R580, H200
  out.turnstile = node->find_process(pid, out.identity);
  return out.turnstile != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult result_of(Move move) {
  switch (move) {
    case Move::kDone:
      return CUDA_SUCCESS;
    case Move::kGone:
      return CUDA_ERROR_INVALID_VALUE;
    case Move::kUnmovable:
      return CUDA_ERROR_NOT_SUPPORTED;
    case Move::kFull:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case Move::kLost:
      return CUDA_ERROR_OPERATING_SYSTEM;
    case Move::kKilled:
      return CUDA_ERROR_NOT_PERMITTED;
  }
  return CUDA_ERROR_UNKNOWN;
}

using Step = Move (Node::*)(Turnstile&, const ProcessIdentity&);

/// Advances the process by one step from the state `from`. If the step moves memory, `moves` is the name of the calling
/// function, whose configured latency and faults (faults.hpp) then apply.
CUresult advance(int pid, std::uint32_t from, Step act, unsigned timeout_ms = 0, const char* moves = nullptr) {
  Target target;
  if (const CUresult found = find(pid, target); found != CUDA_SUCCESS) return found;
  Turnstile& turnstile = *target.turnstile;
  if (turnstile.state != from) return CUDA_ERROR_ILLEGAL_STATE;
  if (!hold(turnstile, timeout_ms)) return CUDA_ERROR_NOT_READY;
  CUresult result = turnstile.state == from ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
  if (result == CUDA_SUCCESS && moves != nullptr) {
    turnstile.moving = 1;
    step();
    if (calls_are_gated) result = gate(moves, 0);
  }
  if (result == CUDA_SUCCESS) {
    const Move moved = (Node::get()->*act)(turnstile, target.identity);
    if (moved == Move::kKilled) ::kill(pid, SIGKILL);
    result = result_of(moved);
  }
  turnstile.moving = 0;
  step();
  let_go(turnstile);
  return result;
}

template <typename Arguments>
bool all_zero(const Arguments* arguments) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(arguments);
  return arguments == nullptr ||
         std::all_of(bytes, bytes + sizeof *arguments, [](unsigned char byte) { return byte == 0; });
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuCheckpointProcessGetState(int pid, CUprocessState* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  if (const CUresult found = find(pid, target); found != CUDA_SUCCESS) return found;
  // Taking the mutex marks the process as failed if another process died while it moved this process's memory.
  if (try_hold(*target.turnstile)) let_go(*target.turnstile);
  *out = static_cast<CUprocessState>(target.turnstile->state.load());
  return CUDA_SUCCESS;
}

RATION_ENTRY cuCheckpointProcessGetRestoreThreadId(int pid, int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  if (const CUresult found = find(pid, target); found != CUDA_SUCCESS) return found;
  *out = pid;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* arguments) {
  CUcheckpointLockArgs reserved = arguments != nullptr ? *arguments : CUcheckpointLockArgs{};
  const unsigned timeout_ms = reserved.timeoutMs;
  reserved.timeoutMs = 0;
  if (!all_zero(&reserved)) return CUDA_ERROR_INVALID_VALUE;
  return advance(pid, kRunning, &Node::lock_process, timeout_ms);
}

RATION_ENTRY cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs* arguments) {
  if (!all_zero(arguments)) return CUDA_ERROR_NOT_SUPPORTED;
  return advance(pid, kLocked, &Node::park, 0, "cuCheckpointProcessCheckpoint");
}

RATION_ENTRY cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs*) {
  return advance(pid, kCheckpointed, &Node::unpark, 0, "cuCheckpointProcessRestore");
}

RATION_ENTRY cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs* arguments) {
  if (!all_zero(arguments)) return CUDA_ERROR_INVALID_VALUE;
  return advance(pid, kLocked, &Node::unlock_process);
}
