// Managed memory, which the driver moves between device and host. The workload's policy (`ration run --managed`):
//   charge    Every byte is charged, wherever it is.
//   resident  The part that may be on the device is charged. The rest of a block is advised to stay in host memory,
//             where the device reads and writes it. When plain memory needs the room, parts of blocks are moved to
//             the host and refunded. A program sees a GPU of the limit's size: with a fraction of 4.0 it takes four
//             times the limit, and three quarters of that lie on the host (AlphaFold's issue 832 describes this for
//             whole GPUs).
//   ignore    Nothing is charged.
// Advice keeps the rest on the host: data in its preferred location does not move if the processor that faults can map
// it there (driver API, cuMemAdvise). The charged part of a block is its beginning. If a call would bring more of the
// block to the device, that part is charged first. If there is no room, the call is left out, since it was only advice.
// A call is also left out if it would bring a block to another device than the one on which the block is charged.
#include <algorithm>
#include <atomic>

#include "driver/cuda_graph_abi.hpp"
#include "driver/cuda_managed_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/blocks.hpp"
#include "guard/hooks/follow_context.hpp"
#include "guard/hooks/gate.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/while_others_capture.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct ManagedBlock {
  std::uint64_t size = 0;
  std::uint64_t charged = 0;  // the charged part from its beginning, in whole granules, so it can exceed `size`
  std::uint64_t context = 0;
  CUcontext handle = nullptr;  // the handle of the context
  std::uint32_t account = kNoAccount;
  CUdevice device = -1;
};

Table<ManagedBlock> managed;  // the key is the address
// The gate for calls that bring memory to a device. A thread is inside from reading a block's charge until the driver
// call that brings the charged part to the device. A thread that makes, frees or evicts a block is alone inside.
Gate bringing;
std::atomic<bool> prefetch_under_way{false};  // true after a prefetch to a device until await_prefetches()

CUresult keep_on_host(CUdeviceptr address, std::uint64_t size, CUdevice device) noexcept {
  auto* advise = real<cuMemAdvise_t>(Symbol::cuMemAdvise);
  CUresult result = advise(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
  // Read-mostly pages would be copied to the device when the device reads them. Memory that is mapped for a device
  // causes no page fault when the device accesses it.
  if (result == CUDA_SUCCESS) result = advise(address, size, CU_MEM_ADVISE_UNSET_READ_MOSTLY, CU_DEVICE_CPU);
  if (result == CUDA_SUCCESS) result = advise(address, size, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
  return result;
}

/// Waits until all prefetches to devices have arrived. If there was one, on any stream, synchronises every context, as
/// the driver may do for any allocation (CUDA programming guide, implicit synchronization). The thread must be alone at
/// the gate.
void await_prefetches() noexcept {
  if (!prefetch_under_way.exchange(false)) return;
  const WhileOthersCapture relaxed;
  auto* synchronise = real<cuCtxSynchronize_t>(Symbol::cuCtxSynchronize);
  (void)synchronise();
  for (LivingContext one; next_context(one.number, one);) {
    if (real<cuCtxPushCurrent_v2_t>(Symbol::cuCtxPushCurrent_v2)(one.handle) != CUDA_SUCCESS) continue;
    (void)synchronise();
    (void)real<cuCtxPopCurrent_v2_t>(Symbol::cuCtxPopCurrent_v2)(&one.handle);
  }
  pools_after_synchronisation();
}

/// Moves the range to the host on a separate stream and waits until the move is complete.
CUresult move_to_host(CUdeviceptr address, std::uint64_t size) noexcept {
  await_prefetches();
  const WhileOthersCapture relaxed;
  constexpr unsigned int kNonBlocking = 1;
  CUstream stream = nullptr;
  CUresult result = real<cuStreamCreate_t>(Symbol::cuStreamCreate)(&stream, kNonBlocking);
  if (result == CUDA_SUCCESS) {
    result = real<cuMemPrefetchAsync_t>(Symbol::cuMemPrefetchAsync)(address, size, CU_DEVICE_CPU, stream);
    if (result == CUDA_SUCCESS) result = real<cuStreamSynchronize_t>(Symbol::cuStreamSynchronize)(stream);
    (void)real<cuStreamDestroy_v2_t>(Symbol::cuStreamDestroy_v2)(stream);
    pools_after_synchronisation();
  }
  return result;
}

/// Returns true if the device can read pages on the host. Otherwise the driver moves whole blocks to the device at
/// every launch, whatever is advised.
bool device_leaves_it_on_host(CUdevice device) noexcept {
  int concurrent = 0;
  return real<cuDeviceGetAttribute_t>(Symbol::cuDeviceGetAttribute)(
             &concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) == CUDA_SUCCESS &&
         concurrent != 0;
}

/// Charges as much of `size` as there is room for, in whole granules.
Bytes charge_what_fits(std::uint32_t account, Bytes size) noexcept {
  constexpr int kTries = 8;  // other threads may take the room meanwhile
  for (int tries = 0; tries < kTries; ++tries) {
    const Bytes fits = std::min(size, round_down(book().account(account).headroom(), kGranule));
    if (fits == Bytes{0} || admit_given(account, fits, Kind::kManaged)) return fits;
  }
  return Bytes{0};
}

void refund(CUdeviceptr, const ManagedBlock& block) noexcept {
  give_back(block.account, Bytes{block.charged}, Kind::kManaged);
}

/// Refunds a block that ended with its context.
void refund_lost(CUdeviceptr address, const ManagedBlock& block) noexcept {
  Recorded event(trace::Kind::kFree, block.size);
  event.done(address, block.account);
  refund(address, block);
}

void enter(CUdeviceptr address, const ManagedBlock& block) noexcept {
  ManagedBlock stale;  // the entry of a context that another thread is destroying
  if (managed.replace(address, block, stale)) refund(address, stale);
}

/// Takes a block and enters it. This thread is alone at the gate from the driver's call to the entry, because another
/// thread may prefetch or advise a range that it has not received yet, or that held another block before.
CUresult take_and_enter(const ManagedBlock& block, CUdeviceptr& address, unsigned int flags) noexcept {
  const Gate::Alone alone(bringing);
  if (block.charged < block.size) await_prefetches();  // prefetches may be for a former block at that address
  CUresult result = real<cuMemAllocManaged_t>(Symbol::cuMemAllocManaged)(&address, block.size, flags);
  if (result == CUDA_SUCCESS && block.charged < block.size) {
    result = keep_on_host(address + block.charged, block.size - block.charged, block.device);
    if (result != CUDA_SUCCESS) real<cuMemFree_v2_t>(Symbol::cuMemFree_v2)(address);
  }
  if (result == CUDA_SUCCESS) enter(address, block);
  return result;
}

CUresult take_resident(ManagedBlock block, CUdeviceptr& address, unsigned int flags) noexcept {
  const Bytes fits = charge_what_fits(block.account, round_up(Bytes{block.size}, kGranule));
  block.charged = fits.count();
  const CUresult result = take_and_enter(block, address, flags);
  if (result != CUDA_SUCCESS) take_back(block.account, fits, Kind::kManaged);
  return result;
}

/// Moves the last `size` charged bytes of the block at `address` to the host and refunds them. The thread must be alone
/// at the gate. Returns false if the bytes cannot be moved.
bool evict(CUdeviceptr address, std::uint64_t size) noexcept {
  ManagedBlock block;
  managed.update(address, [&](ManagedBlock& entry) {
    block = entry;
    entry.charged -= std::min(size, entry.charged);
    return entry.size > 0;
  });
  if (block.size == 0) return true;  // the block was freed meanwhile
  const std::uint64_t left = block.charged - std::min(size, block.charged);
  const std::uint64_t end = std::min(block.size, block.charged);
  CUresult result = CUDA_SUCCESS;
  if (end > left) {
    result = keep_on_host(address + left, end - left, block.device);
    if (result == CUDA_SUCCESS) result = move_to_host(address + left, end - left);
  }
  if (result != CUDA_SUCCESS) {
    bool restored = false;
    managed.update(address, [&](ManagedBlock& entry) {
      restored = entry.size == block.size && entry.context == block.context;
      if (restored) entry.charged += block.charged - left;
      return entry.size > 0;
    });
    if (restored) return false;
  }
  give_back(block.account, Bytes{block.charged - left}, Kind::kManaged);
  return result == CUDA_SUCCESS;
}

/// The value that stands for every device that may access the pages.
constexpr CUdevice kWherever = -2;

struct Range {
  CUdeviceptr address = 0;
  std::uint64_t size = 0;
};
/// Returns the part of the range that may be brought to `device`. Charges more of the block if more fits under the
/// limit.
Range allowed(CUdeviceptr address, std::uint64_t size, CUdevice device) noexcept {
  CUdeviceptr start = 0;
  std::size_t length = 0;
  ManagedBlock block;
  if (!governed() ||
      real<cuMemGetAddressRange_v2_t>(Symbol::cuMemGetAddressRange_v2)(&start, &length, address) != CUDA_SUCCESS ||
      !managed.find(start, block))
    return {address, size};  // the whole range, or the driver reports the error
  const std::uint64_t asked = size;
  size = std::min<std::uint64_t>(size, block.size - (address - start));
  if (device != block.device && device != kWherever) return {address, is_device(device) ? 0 : asked};
  const std::uint64_t end = address - start + size;
  if (end > block.charged) {
    const Bytes more = charge_what_fits(block.account, round_up(Bytes{end - block.charged}, kGranule));
    bool extended = false;
    managed.update(start, [&](ManagedBlock& entry) {
      extended = entry.size == block.size && entry.context == block.context && entry.charged == block.charged;
      if (extended) entry.charged += more.count();
      return entry.size > 0;
    });
    if (!extended) {
      give_back(block.account, more, Kind::kManaged);
    } else if (more > Bytes{0}) {
      (void)real<cuMemAdvise_t>(Symbol::cuMemAdvise)(start + block.charged,
                                                     std::min(more.count(), block.size - block.charged),
                                                     CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, block.device);
      block.charged += more.count();
    }
  }
  const std::uint64_t reach = std::min(end, block.charged);
  if (reach == end && asked > size)
    return {address, asked};  // the range goes beyond its block, and the driver reports the error
  return {address, reach > address - start ? reach - (address - start) : 0};
}

CUdevice device_of(CUdevice device) noexcept { return device; }
CUdevice device_of(CUmemLocation location) noexcept {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

/// Returns the device to which pages may come because of this advice: kWherever for any device, CU_DEVICE_CPU for none.
CUdevice brings_to(CUmem_advise advice, CUdevice device) noexcept {
  if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION) return kWherever;
  return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? device : CU_DEVICE_CPU;
}

/// Divides a range at the ends of its blocks, each of which is charged separately, and calls `call(address, size)` for
/// each part.
template <typename Call>
CUresult for_each_block(CUdeviceptr address, std::uint64_t size, Call&& call) noexcept {
  for (;;) {
    CUdeviceptr start = 0;
    std::size_t length = 0;
    auto* range_of = real<cuMemGetAddressRange_v2_t>(Symbol::cuMemGetAddressRange_v2);
    if (!governed() || range_of(&start, &length, address) != CUDA_SUCCESS || size <= start + length - address)
      return call(address, size);
    // A block has its last page to itself: the next block begins at the page's end.
    const CUdeviceptr end = start + length;
    const CUdeviceptr next =
        range_of(&start, &length, end) == CUDA_SUCCESS ? end : round_up(Bytes{end}, kGranule).count();
    if (size <= next - address) return call(address, size);
    if (range_of(&start, &length, next) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = call(address, end - address); result != CUDA_SUCCESS) return result;
    size -= next - address;
    address = next;
  }
}

template <typename Function, typename Where>
CUresult advise(Symbol symbol, CUdeviceptr address, std::size_t size, CUmem_advise advice, Where where) noexcept {
  auto* call_real = real<Function>(symbol);
  const CUdevice device = brings_to(advice, device_of(where));
  if (device == CU_DEVICE_CPU) return call_real(address, size, advice, where);
  const Gate::Pass pass(bringing);
  return for_each_block(address, size, [&](CUdeviceptr from, std::uint64_t bytes) {
    const Range range = allowed(from, bytes, device);
    return range.size == 0 && bytes > 0 ? CUDA_SUCCESS : call_real(range.address, range.size, advice, where);
  });
}

/// Brings the range to a device by `call(address, size)`. The thread must be inside the gate.
template <typename Call>
CUresult bring(CUdeviceptr address, std::size_t size, CUdevice device, Call&& call) noexcept {
  return for_each_block(address, size, [&](CUdeviceptr from, std::uint64_t bytes) {
    const Range range = allowed(from, bytes, device);
    if (range.size == 0 && bytes > 0) return CUDA_SUCCESS;
    prefetch_under_way = true;
    return call(range.address, range.size);
  });
}

template <typename Where, typename Call>
CUresult prefetch(CUdeviceptr address, std::size_t size, Where where, Call&& call) noexcept {
  const CUdevice device = device_of(where);
  if (device == CU_DEVICE_CPU) return call(address, size);
  const Gate::Pass pass(bringing);
  return bring(address, size, device, call);
}

/// The arguments of a call for several ranges. A location applies to the ranges from its index up to the next
/// location's index.
struct Batch {
  CUdeviceptr* addresses;
  std::size_t* sizes;
  std::size_t count;
  CUmemLocation* locations;
  std::size_t* first_of;
  std::size_t location_count;
  unsigned long long flags;
};

/// Makes one driver call for each range. If the process is not governed, or the arguments are wrong, calls
/// `all_at_once()` instead.
template <typename Call>
CUresult prefetch_batch(const Batch& batch, CUstream stream, Symbol single, Symbol discard,
                        Call&& all_at_once) noexcept {
  const Gate::Pass pass(bringing);
  prefetch_under_way = true;
  if (!governed() || batch.addresses == nullptr || batch.sizes == nullptr || batch.locations == nullptr ||
      batch.first_of == nullptr || batch.count == 0 || batch.location_count == 0 || batch.first_of[0] != 0 ||
      batch.flags != 0)
    return all_at_once();  // the driver reports the error, if there is one
  if (discard != Symbol::kCount) {
    const CUresult result =
        real<cuMemDiscardBatchAsync_t>(discard)(batch.addresses, batch.sizes, batch.count, 0, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  std::size_t location = 0;
  for (std::size_t i = 0; i < batch.count; ++i) {
    while (location + 1 < batch.location_count && batch.first_of[location + 1] <= i) ++location;
    const CUmemLocation where = batch.locations[location];
    const auto call = [&](CUdeviceptr address, std::size_t size) {
      return real<cuMemPrefetchAsync_v2_t>(single)(address, size, where, 0, stream);
    };
    const CUdevice device = device_of(where);
    const CUresult result = device == CU_DEVICE_CPU ? call(batch.addresses[i], batch.sizes[i])
                                                    : bring(batch.addresses[i], batch.sizes[i], device, call);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult take_managed(ManagedPolicy policy, CUdeviceptr& address, std::size_t size, unsigned int flags,
                      const Place& place) noexcept {
  ManagedBlock block;
  block.size = size;
  block.context = place.context;
  block.account = place.account;
  (void)real<cuCtxGetCurrent_t>(Symbol::cuCtxGetCurrent)(&block.handle);
  (void)real<cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&block.device);
  CUresult result = CUDA_SUCCESS;
  Recorded event(trace::Kind::kAllocate, size);
  if (policy == ManagedPolicy::kResident && place.account != kNoAccount && device_leaves_it_on_host(block.device)) {
    result = take_resident(block, address, flags);
  } else {
    const Bytes all = round_up(Bytes{size}, kGranule);
    block.charged = all.count();
    result = charged(place.account, all, Kind::kManaged, "cuMemAllocManaged",
                     [&] { return take_and_enter(block, address, flags); });
  }
  event.failed(result, place.account);
  if (result == CUDA_SUCCESS) event.done(address, place.account);
  // This runs outside the gate, because a thread that waits at the gate may hold the lock of a context.
  if (result == CUDA_SUCCESS && contexts_changed_since(place)) [[unlikely]]
    follow_context(managed, address, place, refund_lost);
  return result;
}

bool free_managed_block(CUdeviceptr address, CUresult& result) noexcept {
  ManagedBlock block;
  if (!managed.find(address, block)) return false;
  // Waits for every prefetch whose charge was checked and that has not reached the driver yet.
  const Gate::Alone alone(bringing);
  if (!managed.take(address, block)) return false;
  Recorded event(trace::Kind::kFree, block.size);
  result = real<cuMemFree_v2_t>(Symbol::cuMemFree_v2)(address);
  event.failed(result, block.account);
  if (result == CUDA_SUCCESS) {
    event.done(address, block.account);
    refund(address, block);
  } else {
    managed.insert(address, block);
  }
  return true;
}

void evict_managed(std::uint32_t account, Bytes needed) noexcept {
  if (book().settings().managed != ManagedPolicy::kResident) return;
  for (;;) {
    const Bytes room = book().account(account).headroom();
    if (room >= needed) return;
    CUdeviceptr address = 0;
    CUcontext context = nullptr;
    managed.each([&](std::uint64_t start, const ManagedBlock& block) {
      if (block.account == account && block.charged > 0) address = start, context = block.handle;
    });
    if (address == 0) return;
    const Gate::Alone alone(bringing);
    // The calling thread may have no context, for example because it is about to make one.
    if (real<cuCtxPushCurrent_v2_t>(Symbol::cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS) return;
    const bool moved = evict(address, round_up(needed - room, kGranule).count());
    (void)real<cuCtxPopCurrent_v2_t>(Symbol::cuCtxPopCurrent_v2)(&context);
    if (!moved) return;
  }
}

void managed_of_context_is_gone(std::uint64_t context, std::uint64_t now) noexcept {
  end_blocks(managed, context, now, refund_lost);
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  managed.abandon();
  bringing.abandon();
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

#define RATION_ADVISE(name, Where)                                                                     \
  RATION_HOOK CUresult name(CUdeviceptr address, std::size_t size, CUmem_advise advice, Where where) { \
    return advise<name##_t>(Symbol::name, address, size, advice, where);                               \
  }
RATION_ADVISE(cuMemAdvise, CUdevice)
RATION_ADVISE(cuMemAdvise_v2, CUmemLocation)
#undef RATION_ADVISE

#define RATION_PREFETCH(name)                                                                          \
  RATION_HOOK CUresult name(CUdeviceptr address, std::size_t size, CUdevice device, CUstream stream) { \
    return prefetch(address, size, device, [&](CUdeviceptr from, std::size_t bytes) {                  \
      return real<cuMemPrefetchAsync_t>(Symbol::name)(from, bytes, device, stream);                    \
    });                                                                                                \
  }
RATION_PREFETCH(cuMemPrefetchAsync)
RATION_PREFETCH(cuMemPrefetchAsync_ptsz)
#undef RATION_PREFETCH

#define RATION_PREFETCH_TO(name)                                                                               \
  RATION_HOOK CUresult name(CUdeviceptr address, std::size_t size, CUmemLocation location, unsigned int flags, \
                            CUstream stream) {                                                                 \
    return prefetch(address, size, location, [&](CUdeviceptr from, std::size_t bytes) {                        \
      return real<cuMemPrefetchAsync_v2_t>(Symbol::name)(from, bytes, location, flags, stream);                \
    });                                                                                                        \
  }
RATION_PREFETCH_TO(cuMemPrefetchAsync_v2)
RATION_PREFETCH_TO(cuMemPrefetchAsync_v2_ptsz)
#undef RATION_PREFETCH_TO

#define RATION_PREFETCH_BATCH(name, single, discard)                                                                 \
  RATION_HOOK CUresult name(CUdeviceptr* addresses, std::size_t* sizes, std::size_t count, CUmemLocation* locations, \
                            std::size_t* first_of, std::size_t location_count, unsigned long long flags,             \
                            CUstream stream) {                                                                       \
    const Batch batch{addresses, sizes, count, locations, first_of, location_count, flags};                          \
    return prefetch_batch(batch, stream, Symbol::single, Symbol::discard, [&] {                                      \
      return real<cuMemPrefetchBatchAsync_t>(Symbol::name)(addresses, sizes, count, locations, first_of,             \
                                                           location_count, flags, stream);                           \
    });                                                                                                              \
  }
RATION_PREFETCH_BATCH(cuMemPrefetchBatchAsync, cuMemPrefetchAsync_v2, kCount)
RATION_PREFETCH_BATCH(cuMemPrefetchBatchAsync_ptsz, cuMemPrefetchAsync_v2_ptsz, kCount)
RATION_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync, cuMemPrefetchAsync_v2, cuMemDiscardBatchAsync)
RATION_PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz, cuMemPrefetchAsync_v2_ptsz, cuMemDiscardBatchAsync_ptsz)
#undef RATION_PREFETCH_BATCH
