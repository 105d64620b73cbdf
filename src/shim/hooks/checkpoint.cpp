// Checkpoints of the calling process: what it held goes back to the workload while its memory is on the host, and is
// charged again, or denied, when it returns. A checkpoint ordered by another process is not seen: the bytes stay
// charged.
#include <unistd.h>

#include <algorithm>

#include "driver/cuda_share_abi.hpp"
#include "shim/hooks/after_fork.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

constexpr std::uint32_t kMaxAccounts = 64;
Bytes on_host[kMaxAccounts];  // the driver refuses a second checkpoint, so one thread at a time

std::uint32_t accounts() noexcept { return book_usable() ? std::min(book().account_count(), kMaxAccounts) : 0; }

}  // namespace

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  for (Bytes& bytes : on_host) bytes = Bytes{0};
});

}  // namespace ration::shim

using namespace ration::shim;
using namespace ration::cuda;
using ration::Bytes;

RATION_HOOK CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs* arguments) {
  const CUresult result = real<cuCheckpointProcessCheckpoint_t>(Symbol::cuCheckpointProcessCheckpoint)(pid, arguments);
  if (result != CUDA_SUCCESS || pid != ::getpid() || !governed()) return result;
  for (std::uint32_t account = 0; account < accounts(); ++account) {
    on_host[account] = book().account(account).held_by_this_process();
    give_back(account, on_host[account]);
  }
  return result;
}

RATION_HOOK CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs* arguments) {
  auto* call_real = real<cuCheckpointProcessRestore_t>(Symbol::cuCheckpointProcessRestore);
  if (pid != ::getpid() || !governed()) return call_real(pid, arguments);
  std::uint32_t entered = 0;
  while (entered < accounts() && (on_host[entered] == Bytes{0} ||
                                  admit(entered, on_host[entered], Kind::kHeap, "cuCheckpointProcessRestore"))) {
    ++entered;
  }
  const CUresult result = entered < accounts() ? CUDA_ERROR_OUT_OF_MEMORY : call_real(pid, arguments);
  for (std::uint32_t account = 0; account < entered; ++account) {
    if (result == CUDA_SUCCESS)
      on_host[account] = Bytes{0};
    else
      give_back(account, on_host[account]);
  }
  return result;
}
