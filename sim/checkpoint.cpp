// Checkpoints of the calling process: its device memory moves to the host, its device bytes go back, and a restore
// takes them again at the same addresses. Where the real driver lets other calls wait while the process is locked, this
// one answers CUDA_ERROR_ILLEGAL_STATE, so that one thread can look at what happened.
#include <unistd.h>

#include "driver.hpp"
#include "driver/cuda_share_abi.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

CUprocessState process_state = CU_PROCESS_STATE_RUNNING;  // under driver().mutex

/// One step from `from` to `to`; `step` does it, or says why not.
template <typename Step>
CUresult advance(int pid, CUprocessState from, CUprocessState to, Step&& step) {
  if (!driver().initialised || driver().forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (pid != ::getpid()) return CUDA_ERROR_NOT_SUPPORTED;  // other processes cannot be reached from here
  const std::lock_guard guard(driver().mutex);
  if (process_state != from) return CUDA_ERROR_ILLEGAL_STATE;
  if (const CUresult result = step(); result != CUDA_SUCCESS) return result;
  process_state = to;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuCheckpointProcessGetState(int pid, CUprocessState* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (pid != ::getpid()) return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard guard(driver().mutex);
  *out = process_state;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuCheckpointProcessGetRestoreThreadId(int pid, int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (pid != ::getpid()) return CUDA_ERROR_NOT_SUPPORTED;
  *out = pid;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuCheckpointProcessLock(int pid, CUcheckpointLockArgs*) {
  return advance(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED, [] {
    driver().locked = true;
    return CUDA_SUCCESS;
  });
}

RATION_ENTRY cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs*) {
  return advance(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED, [] {
    if (Node::get()->shares_memory()) return CUDA_ERROR_NOT_SUPPORTED;  // others look at it where it is
    Node::get()->park();
    return CUDA_SUCCESS;
  });
}

RATION_ENTRY cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs*) {
  return advance(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED,
                 [] { return Node::get()->unpark() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY; });
}

RATION_ENTRY cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs*) {
  return advance(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING, [] {
    driver().locked = false;
    return CUDA_SUCCESS;
  });
}
