// Plain device memory: linear, pitched and managed allocations, their release, and memory shared by IPC handle.
#include "guard/hooks/blocks.hpp"

#include "driver/cuda_graph_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/follow_context.hpp"
#include "guard/hooks/gate.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/graphs.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/imports.hpp"
#include "guard/hooks/shares.hpp"
#include "guard/hooks/while_others_capture.hpp"
#include "guard/hooks/written.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct Block {
  std::uint64_t size = 0;
  std::uint64_t context = 0;
  std::uint32_t account = kNoAccount;
  Kind kind = Kind::kHeap;
  std::uint64_t number = 0;  // the number in the book of an exported block; 0 if not exported
};

/// A block that the driver frees once a stream has reached the freeing call.
struct Freeing {
  Block block;
  CUdeviceptr address = 0;
};

Table<Block> blocks;
Table<Freeing> freeing;  // the key is the event recorded after the freeing call
Granules granules;
SpinLock exporting;
// The gate for small blocks. A thread is inside from its driver call for a small block until the block is entered, and
// while it refunds a small block. So while a thread is alone inside, every granule with entries stays charged.
Gate counting_small;

/// Returns the most that an allocation can be charged; the exact charge depends on its address.
Bytes worst_case(std::uint64_t size) noexcept { return round_up(Bytes{size}, kGranule); }

bool is_small(std::uint64_t size) noexcept { return Bytes{size} <= kMaxPiece; }

/// Refunds a freed block, except the parts that other processes still hold. For a small block, the thread must be
/// inside the gate.
void refund_inside(std::uint64_t address, const Block& block) noexcept {
  leave_share(address);
  for (const Granules::Vacated::Part& part : granules.vacate(address, block.size, block.number).parts) {
    if (part.number != 0)
      book().shared_memory().give_up(part.number, block.account, part.size, block.kind);
    else
      give_back(block.account, part.size, block.kind);
  }
}

/// Refunds like refund_inside(), but enters the gate itself. The thread must hold no lock of a table, because other
/// threads take these locks inside the gate.
void refund(std::uint64_t address, const Block& block) noexcept {
  if (!is_small(block.size)) return refund_inside(address, block);
  const Gate::Pass pass(counting_small);
  refund_inside(address, block);
}

/// Refunds a block that ended with its context. `Refund` is refund() or refund_inside().
template <auto Refund>
void refund_lost(std::uint64_t address, const Block& block) noexcept {
  Recorded event(trace::Kind::kFree, block.size);
  event.done(address, block.account);
  Refund(address, block);
}

/// Corrects the charge of a new block from the estimate `entered` to the granules at its address, and enters the block.
/// Returns false if the charge does not fit. `is_inside` says whether the thread is inside the gate.
bool settle(std::uint64_t address, std::uint64_t size, const Place& place, Bytes entered, bool is_inside) noexcept {
  const Bytes taken = granules.occupy(address, size, place.kind == Kind::kHeap ? place.context : 0);
  const bool fits = taken <= entered || admit_given(place.account, taken - entered, place.kind);
  if (!fits) {
    (void)granules.vacate(address, size);  // the caller gives back what it entered
    return false;
  }
  if (taken < entered) give_back(place.account, entered - taken, place.kind);
  Block block;
  block.size = size;
  block.context = place.context;
  block.account = place.account;
  block.kind = place.kind;
  Block stale;
  // A stale entry belongs to a context that another thread is destroying; the driver has already reused the address.
  if (blocks.replace(address, block, stale)) is_inside ? refund_inside(address, stale) : refund(address, stale);
  return true;
}

void undo(CUdeviceptr address) noexcept { real<cuMemFree_v2_t>(Symbol::cuMemFree_v2)(address); }

/// Takes a small block if it fits beside other blocks in a granule that is charged already. For use when no further
/// granule fits under the limit. Returns false if the block does not fit.
template <typename Call>
bool fits_in_a_shared_granule(std::uint64_t& size, const Place& place, CUdeviceptr& address, Call&& call) noexcept {
  if (!is_small(size) || place.account == kNoAccount || place.kind != Kind::kHeap) return false;
  bool fits = false;
  {
    const Gate::Alone alone(counting_small);
    if (!granules.has_room(place.context, size) || call(address) != CUDA_SUCCESS) return false;
    fits = settle(address, size, place, Bytes{0}, true);
    if (!fits) undo(address);
  }
  if (fits) follow_context(blocks, address, place, refund_lost<refund>);
  return fits;
}

/// Makes the driver call and then enters the new block. Sets `fits` to false if the charge does not fit.
template <typename Call>
CUresult call_and_settle(std::uint64_t& size, const Place& place, CUdeviceptr& address, Bytes entered, bool& fits,
                         bool is_inside, Call&& call) noexcept {
  const CUresult result = call(address);
  fits = result == CUDA_SUCCESS && settle(address, size, place, entered, is_inside);
  return result;
}

template <typename Call>
CUresult take_and_settle(std::uint64_t& size, const Place& place, CUdeviceptr& address, Bytes entered, bool& fits,
                         Call&& call) noexcept {
  if (!is_small(size)) return call_and_settle(size, place, address, entered, fits, false, call);
  const Gate::Pass pass(counting_small);
  return call_and_settle(size, place, address, entered, fits, true, call);
}

/// The treatment of a request for which there is no room.
enum class WithoutRoom {
  kAdmit,   // makes room or waits for room; if neither helps, records the denial
  kGiveUp,  // returns at once, because the caller tries another way
};

template <typename Event, typename Call>
CUresult take_block_as(std::uint64_t& size, const char* function, CUdeviceptr& address, Call&& call, const Place& place,
                       WithoutRoom without_room) noexcept {
  if (size == 0 || place.context == 0) return call(address);  // the driver reports the error
  Event event(trace::Kind::kAllocate, size);
  const Bytes entered = worst_case(size);
  ShareCharge share(place.kind == Kind::kHeap ? place.account : kNoAccount, is_small(size) ? Bytes{size} : entered);
  if (!share.fits()) return share.deny(function);
  const bool gives_up = without_room == WithoutRoom::kGiveUp;
  if (gives_up && !admit_given(place.account, entered, place.kind)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!gives_up && !admit_quietly(place.account, entered, place.kind)) [[unlikely]] {
    if (fits_in_a_shared_granule(size, place, address, call)) {
      share.keep(address);
      event.done(address, place.account);
      return CUDA_SUCCESS;
    }
    if (!admit(place.account, entered, place.kind, function)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  bool fits = false;
  CUresult result = take_and_settle(size, place, address, entered, fits, call);
  for (std::uint64_t since = 0; result == CUDA_ERROR_OUT_OF_MEMORY;) {
    take_back(place.account, entered, place.kind);
    event.failed(result, place.account);
    if (!device_was_full(place.account, entered, function, since)) return result;
    if (!admit(place.account, entered, place.kind, function)) return result;
    result = take_and_settle(size, place, address, entered, fits, call);
    if (result == CUDA_SUCCESS) book().waiting().count_granted();
  }
  event.failed(result, place.account);
  if (result != CUDA_SUCCESS) {
    take_back(place.account, entered, place.kind);
    return result;
  }
  if (fits) {
    share.keep(address);
    event.done(address, place.account);
    if (contexts_changed_since(place)) [[unlikely]]
      follow_context(blocks, address, place, refund_lost<refund>);
    return CUDA_SUCCESS;
  }
  undo(address);
  give_back(place.account, entered, place.kind);
  deny(place.account, entered, book::DenialReason::kLimit, function, book::kUnknownBytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// Charges an allocation: `call(address)` takes `size` bytes at an address that the driver chooses, and may correct
/// `size` to the number of bytes that the driver took.
template <typename Call>
CUresult take_block(std::uint64_t& size, const char* function, CUdeviceptr& address, Call&& call,
                    const Place& place = current_place(), WithoutRoom without_room = WithoutRoom::kAdmit) noexcept {
  return recorded_or_not([&]<typename Event>() noexcept {
    return take_block_as<Event>(size, function, address, call, place, without_room);
  });
}

/// Restores the entry of a block that the driver did not free. Refunds the block instead if it is gone by now, or if
/// another block has its address.
[[gnu::noinline]] void put_back(CUdeviceptr address, const Block& block) noexcept {
  bool there = is_there(address, block.size);
  blocks.update(address, [&](Block& entry) {
    there = there && entry.size == 0;
    if (there) entry = block;
    return entry.size != 0;
  });
  if (!there) refund(address, block);
}

/// Removes the entry at `address`, then frees the block by `call`. The order matters: once the driver has freed the
/// block, another thread may receive the same address.
template <typename Call>
[[gnu::always_inline]] inline CUresult release_block(CUdeviceptr address, Call&& call) noexcept {
  CUresult result = CUDA_SUCCESS;
  Block block;
  const bool known = blocks.take(address, block);
  if (!known && (free_managed_block(address, result) || free_pool_pointer(address, result))) return result;
  if (!known) {
    ClosingImport closing(address);
    result = call();
    if (result != CUDA_SUCCESS) return result;
    closing.closed();
    graph_allocation_was_freed(address);
    return result;
  }
  return recorded_or_not([&]<typename Event>() noexcept {
    Event event(trace::Kind::kFree, block.size);
    if (block.number != 0) exporting.wait();  // waits until the exporting thread has named the block
    result = call();
    event.failed(result, block.account);
    if (result == CUDA_SUCCESS) {
      event.done(address, block.account);
      refund(address, block);
    } else {
      put_back(address, block);
    }
    return result;
  });
}

/// Records an event after the stream's pending work. Returns null if the driver cannot make an event.
CUevent record_event(CUstream stream) noexcept {
  constexpr unsigned kDisableTiming = 2;
  CUevent event = nullptr;
  if (real<cuEventCreate_t>(Symbol::cuEventCreate)(&event, kDisableTiming) != CUDA_SUCCESS) return nullptr;
  if (real<cuEventRecord_t>(Symbol::cuEventRecord)(event, stream) == CUDA_SUCCESS) return event;
  real<cuEventDestroy_v2_t>(Symbol::cuEventDestroy_v2)(event);
  return nullptr;
}

/// Refunds a block once the stream has freed it.
void refund_when_reached(CUdeviceptr address, const Block& block, CUstream stream) noexcept {
  const WhileOthersCapture relaxed;
  if (real<cuStreamQuery_t>(Symbol::cuStreamQuery)(stream) == CUDA_SUCCESS) return refund(address, block);
  const CUevent event = record_event(stream);
  if (event != nullptr && freeing.insert(reinterpret_cast<std::uint64_t>(event), {block, address})) return;
  // The stream belongs to another context, or there is no memory for an event: this waits for the stream instead.
  (void)real<cuStreamSynchronize_t>(Symbol::cuStreamSynchronize)(stream);
  refund(address, block);
}

/// Calls an allocating function of the driver. Writes to `out` whatever the driver writes, even if the call fails.
/// Reads the address before handing it to the program, because the program's other threads may change it.
template <typename Pointer, typename Size, typename Function>
CUresult take_linear(Symbol symbol, Pointer* out, Size size) noexcept {
  auto* call_real = real<Function>(symbol);
  if (!governed() || out == nullptr) return call_real(out, size);
  CUdeviceptr address = 0;
  std::uint64_t taken = size;
  Written<Pointer> written;
  const CUresult result = take_block(taken, "cuMemAlloc", address, [&](CUdeviceptr& given) {
    const CUresult inner = call_real(written.place(), size);
    if (inner == CUDA_SUCCESS) given = written.value();
    return inner;
  });
  written.hand_on(out);
  return result;
}

/// The pitch alignment of every CUDA device, to which rows are padded. Padding makes narrow rows far larger than their
/// contents.
constexpr Bytes kPitchAlignment{512};

template <typename Pointer, typename Size, typename Function>
CUresult take_pitched(Symbol symbol, const char* name, Pointer* out, Size* pitch, Size width, Size height,
                      unsigned element) noexcept {
  auto* call_real = real<Function>(symbol);
  if (!governed() || out == nullptr || pitch == nullptr) return call_real(out, pitch, width, height, element);
  const std::uint64_t row = round_up(Bytes{static_cast<std::uint64_t>(width)}, kPitchAlignment).count();
  std::uint64_t size = 0;
  if (__builtin_mul_overflow(row, static_cast<std::uint64_t>(height), &size)) size = kUnlimited.count();
  CUdeviceptr address = 0;
  Written<Pointer> written;
  Written<Size> padded;
  const CUresult result = take_block(size, name, address, [&](CUdeviceptr& given) {
    const CUresult inner = call_real(written.place(), padded.place(), width, height, element);
    if (inner == CUDA_SUCCESS) {
      given = written.value();
      size = static_cast<std::uint64_t>(padded.value()) * height;
    }
    return inner;
  });
  written.hand_on(out);
  padded.hand_on(pitch);
  return result;
}

}  // namespace

void renumber_blocks(std::uint64_t handle, std::uint64_t number) noexcept {
  blocks.each([&](std::uint64_t, Block& block) {
    if (block.context == handle) block.context = number;
  });
}

bool free_block_on_stream(CUdeviceptr address, CUstream stream, cuMemFreeAsync_t* call_real, CUstream given,
                          CUresult& result) noexcept {
  Block block;
  if (!blocks.take(address, block)) return false;
  Recorded event(trace::Kind::kFree, block.size, stream);
  result = call_real(address, given);
  event.failed(result, block.account);
  if (result == CUDA_SUCCESS) {
    event.done(address, block.account);
    refund_when_reached(address, block, stream);
  } else {
    put_back(address, block);
  }
  return true;
}

bool refund_what_streams_freed() noexcept {
  constexpr std::size_t kAtOnce = 64;
  const WhileOthersCapture relaxed;
  std::uint64_t events[kAtOnce];
  bool any_left = false;
  for (std::size_t count = kAtOnce, gone = kAtOnce; count == kAtOnce && gone > 0;) {
    count = gone = 0;
    freeing.each([&](std::uint64_t event, const Freeing&) {
      if (count < kAtOnce) events[count++] = event;
    });
    for (std::size_t i = 0; i < count; ++i) {
      const auto event = reinterpret_cast<CUevent>(events[i]);
      Freeing freed;
      if (real<cuEventQuery_t>(Symbol::cuEventQuery)(event) != CUDA_SUCCESS || !freeing.take(events[i], freed))
        continue;
      Recorded later(trace::Kind::kFree);
      later.done(0, freed.block.account);  // the release itself was recorded when the program asked for it
      refund(freed.address, freed.block);
      real<cuEventDestroy_v2_t>(Symbol::cuEventDestroy_v2)(event);
      ++gone;
    }
    any_left = gone < count;
  }
  return any_left;
}

void blocks_of_context_are_gone(std::uint64_t context, std::uint64_t now) noexcept {
  const Gate::Pass pass(counting_small);  // entered before the locks of the tables are taken, as everywhere
  freeing.remove_if([&](std::uint64_t, const Freeing& freed) {
    if (freed.block.context != context) return false;
    Recorded event(trace::Kind::kFree);
    event.done(0, freed.block.account);
    refund_inside(freed.address, freed.block);
    return true;
  });
  end_blocks(blocks, context, now, refund_lost<refund_inside>);
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  blocks.abandon();
  freeing.abandon();
  granules.abandon();
  counting_small.abandon();
  exporting.unlock();
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

RATION_HOOK CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t size) {
  return take_linear<CUdeviceptr, std::size_t, cuMemAlloc_v2_t>(Symbol::cuMemAlloc_v2, out, size);
}

RATION_HOOK CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned int size) {
  return take_linear<CUdeviceptr_v1, unsigned int, cuMemAlloc_t>(Symbol::cuMemAlloc, out, size);
}

RATION_HOOK CUresult cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height,
                                        unsigned int element) {
  return take_pitched<CUdeviceptr, std::size_t, cuMemAllocPitch_v2_t>(Symbol::cuMemAllocPitch_v2, "cuMemAllocPitch",
                                                                      out, pitch, width, height, element);
}

RATION_HOOK CUresult cuMemAllocPitch(CUdeviceptr_v1* out, unsigned int* pitch, unsigned int width, unsigned int height,
                                     unsigned int element) {
  return take_pitched<CUdeviceptr_v1, unsigned int, cuMemAllocPitch_t>(Symbol::cuMemAllocPitch, "cuMemAllocPitch", out,
                                                                       pitch, width, height, element);
}

RATION_HOOK CUresult cuMemAllocManaged(CUdeviceptr* out, std::size_t size, unsigned int flags) {
  auto* call_real = real<cuMemAllocManaged_t>(Symbol::cuMemAllocManaged);
  if (!governed() || out == nullptr) return call_real(out, size, flags);
  note(Unmovable::kManaged);
  Place place = current_place();
  place.kind = Kind::kManaged;
  const auto policy = book_usable() ? book().settings().managed : ManagedPolicy::kCharge;
  if (size == 0 || place.context == 0 || policy == ManagedPolicy::kIgnore) return call_real(out, size, flags);
  CUdeviceptr address = 0;
  std::uint64_t taken = size;
  const bool is_charged = policy == ManagedPolicy::kCharge;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (is_small(size))  // a small block shares a granule, unless it must stay on the host
    result = take_block(
        taken, "cuMemAllocManaged", address, [&](CUdeviceptr& given) { return call_real(&given, size, flags); }, place,
        is_charged ? WithoutRoom::kAdmit : WithoutRoom::kGiveUp);
  if (!is_small(size) || (result == CUDA_ERROR_OUT_OF_MEMORY && !is_charged))
    result = take_managed(policy, address, size, flags, place);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

RATION_HOOK CUresult cuMemFree_v2(CUdeviceptr address) {
  auto* call_real = real<cuMemFree_v2_t>(Symbol::cuMemFree_v2);
  if (!governed()) return call_real(address);
  return release_block(address, [&] { return call_real(address); });
}

RATION_HOOK CUresult cuMemFree(CUdeviceptr_v1 address) {
  auto* call_real = real<cuMemFree_t>(Symbol::cuMemFree);
  if (!governed()) return call_real(address);
  return release_block(address, [&] { return call_real(address); });
}

// Names the block of an exported IPC handle in the book, so that importers in this workload find the block charged; if
// the book has no room, each importer is charged itself. A handle is plain bytes and keeps nothing alive: the memory
// lives until its owner has freed it and every importer has closed it. Another thread may free the block at any moment.
// So importers find the block only once its entry says that it is exported; freeing the block then leaves the charge to
// its holders.
RATION_HOOK CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  note(Unmovable::kShared);
  const CUresult result = real<cuIpcGetMemHandle_t>(Symbol::cuIpcGetMemHandle)(out, address);
  if (result != CUDA_SUCCESS || !governed()) return result;
  CUdeviceptr start = 0;
  std::size_t size = 0;
  if (real<cuMemGetAddressRange_v2_t>(Symbol::cuMemGetAddressRange_v2)(&start, &size, address) != CUDA_SUCCESS)
    start = address;
  const ration::book::SharedMemory shared = book().shared_memory();
  const SpinGuard guard(exporting);
  Block block;
  if (!blocks.find(start, block) || block.size == 0) return result;
  std::uint64_t made = 0;
  if (block.number == 0) block.number = granules.exported_as(start, block.size);
  if (block.number == 0) block.number = made = shared.share(block.account, worst_case(block.size), Kind::kHeap);
  bool there = false;
  blocks.update(start, [&](Block& entry) {
    there = entry.size == block.size && entry.context == block.context;
    if (there) entry.number = block.number;
    return entry.size > 0;
  });
  if (!there && made != 0) shared.withdraw(made, block.account, Kind::kHeap);
  if (!there) return result;
  if (made != 0) {
    const ration::Bytes lent = granules.mark_exported(start, block.size, made);
    if (lent < worst_case(block.size)) shared.set_lent(made, block.account, lent, Kind::kHeap);
  }
  (void)shared.add_name(block.number, name_of(out, sizeof *out));
  return result;
}
