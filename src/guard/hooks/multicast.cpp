// Multicast objects. They have no memory of their own, but keep the memory bound to them alive until it is unbound,
// even if every other reference is gone.
#include <atomic>

#include "driver/cuda_share_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct Bound {
  CUmemGenericAllocationHandle multicast = 0;
  std::uint64_t offset = 0;
  std::uint64_t physical = 0;
};
Table<Bound> bound;
std::atomic<std::uint64_t> next_bound{1};

/// Calls `hold()`, which keeps the memory charged and returns its number. Then binds the memory by `call()`.
template <typename Hold, typename Call>
CUresult bind(CUmemGenericAllocationHandle multicast, std::uint64_t offset, Hold&& hold, Call&& call) noexcept {
  if (!governed()) return call();
  const VirtualMemoryChange change;
  const std::uint64_t physical = hold();
  const CUresult result = call();
  if (physical == 0) return result;
  if (result == CUDA_SUCCESS)
    bound.insert(next_bound.fetch_add(1), Bound{multicast, offset, physical});
  else
    let_go_physical(physical);
  return result;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { bound.abandon(); });

}  // namespace
}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

// Defines a hook that binds memory; `hold` keeps that memory alive.
#define RATION_BIND(name, hold, parameters, arguments)                                                \
  RATION_HOOK CUresult name parameters {                                                              \
    return bind(                                                                                      \
        multicast, at, [&] { return hold; }, [&] { return real<name##_t>(Symbol::name) arguments; }); \
  }
RATION_BIND(cuMulticastBindMem, hold_physical_of(handle),
            (CUmemGenericAllocationHandle multicast, std::size_t at, CUmemGenericAllocationHandle handle,
             std::size_t offset, std::size_t size, unsigned long long flags),
            (multicast, at, handle, offset, size, flags))
RATION_BIND(cuMulticastBindMem_v2, hold_physical_of(handle),
            (CUmemGenericAllocationHandle multicast, CUdevice device, std::size_t at,
             CUmemGenericAllocationHandle handle, std::size_t offset, std::size_t size, unsigned long long flags),
            (multicast, device, at, handle, offset, size, flags))
RATION_BIND(cuMulticastBindAddr, hold_physical_at(address),
            (CUmemGenericAllocationHandle multicast, std::size_t at, CUdeviceptr address, std::size_t size,
             unsigned long long flags),
            (multicast, at, address, size, flags))
RATION_BIND(cuMulticastBindAddr_v2, hold_physical_at(address),
            (CUmemGenericAllocationHandle multicast, CUdevice device, std::size_t at, CUdeviceptr address,
             std::size_t size, unsigned long long flags),
            (multicast, device, at, address, size, flags))
#undef RATION_BIND

RATION_HOOK CUresult cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device, std::size_t offset,
                                       std::size_t size) {
  const VirtualMemoryChange change;
  const CUresult result = real<cuMulticastUnbind_t>(Symbol::cuMulticastUnbind)(multicast, device, offset, size);
  if (result != CUDA_SUCCESS || !governed()) return result;
  const std::uint32_t account = account_of(device);
  bound.remove_if([&](std::uint64_t, const Bound& one) {
    const bool meant = one.multicast == multicast && one.offset >= offset && one.offset - offset < size &&
                       account_of_physical(one.physical) == account;
    if (meant) let_go_physical(one.physical);
    return meant;
  });
  return result;
}
