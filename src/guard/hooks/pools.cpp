// Stream-ordered memory. A pool is charged for what it reserves from the device, not for what it hands out: memory that
// it keeps after a free is still held. The driver grows and shrinks a pool as it likes, so the charge follows the
// driver's own figure, read again after every call that may have changed it. The possible growth for a request is
// entered beforehand, unless the map of the pool's free memory shows that the pool need not grow.
#include <algorithm>
#include <atomic>

#include "book/descriptor_label.hpp"
#include "driver/cuda_graph_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/gate.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/graphs.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/imports.hpp"
#include "guard/hooks/pool_origin.hpp"
#include "guard/hooks/pool_source.hpp"
#include "guard/hooks/pool_table.hpp"
#include "guard/hooks/table.hpp"
#include "guard/hooks/while_others_capture.hpp"
#include "guard/hooks/written.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

/// A pointer handed out by a pool.
struct Loan {
  std::uint64_t size = 0;
  Pool* pool = nullptr;
};

Table<Loan> loans;
Table<std::uint64_t> pieces;  // numbers in the book; the key is an exported pointer, always of a pool that has a number
std::atomic<bool> freed_since_synchronisation{false};

// The gate for allocations. A thread is inside while it checks the source of an allocation and makes the driver call. A
// call that changes what a handle, a device or a stream refers to is alone inside. `meanings` counts such calls,
// because they make earlier look-ups stale.
Gate meaning;
std::atomic<std::uint64_t> meanings{0};

template <typename Call>
CUresult change_meaning(Call&& call) noexcept {
  const Gate::Alone alone(meaning);
  const CUresult result = call();
  meanings.fetch_add(1);
  return result;
}

/// Refunds memory that the pool gave up. If another process still holds an exported pointer that was freed here, the
/// memory may be the part that contains the pointer, so it stays charged: the driver does not tell which part of a pool
/// it gives up.
void refund(Pool& pool, Bytes size) noexcept {
  const Bytes own = std::min(size, pool.charged - std::min(pool.charged, pool.lent));
  give_back(pool.account, own, Kind::kPool);
  if (own == size) return;
  book().shared_memory().give_up(pool.number, pool.account, size - own, Kind::kPool);
  pool.lent = pool.lent - std::min(pool.lent, size - own);
}

/// Enters the pool's charge as memory that other processes may come to hold.
void lend(Pool& pool) noexcept {
  if (pool.number == 0 || pool.lent == pool.charged) return;
  book().shared_memory().set_lent(pool.number, pool.account, pool.charged, Kind::kPool);
  pool.lent = pool.charged;
}

/// The treatment of a pool's memory that the limit does not admit.
enum class Beyond {
  kLeave,   // it stays uncharged; the caller gives it back
  kCharge,  // it is charged, since the pool has it; other requests are denied until it is given back
};

/// Sets the charge to what the pool reserves now. Requires the pool's mutex. Returns false if the pool grew past the
/// limit and the growth stays uncharged.
bool follow(Pool& pool, Beyond beyond = Beyond::kCharge) noexcept {
  Bytes reserved;
  if (pool.destroyed || !read_attribute(pool.handle.load(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved))
    return true;
  if (reserved < pool.charged) {
    refund(pool, pool.charged - reserved);
  } else if (reserved > pool.charged && !admit_given(pool.account, reserved - pool.charged, Kind::kPool)) {
    if (beyond == Beyond::kLeave || pool.account == kNoAccount) return false;
    book().account(pool.account).charge_unconditionally(reserved - pool.charged, Kind::kPool);
  }
  if (reserved < pool.reserved) pool.map.shrunk();
  pool.reserved = reserved;
  pool.charged = reserved;
  lend(pool);
  return true;
}

/// Returns the most bytes by which the pool may grow for a request of `size`.
Bytes possible_growth(Pool& pool, std::uint64_t size) noexcept {
  return pool.map.fits(size) ? Bytes{0} : round_up(Bytes{size}, pool.growth);
}

/// Learns from the last call how the driver places blocks in this pool and how the pool grows. Requires the pool's
/// mutex.
void learn(Pool& pool, CUdeviceptr address, std::uint64_t size, Bytes before, Bytes expected) noexcept {
  const Bytes growth = pool.reserved > before ? pool.reserved - before : Bytes{0};
  if (growth > Bytes{0} && expected == Bytes{0}) pool.map.distrust();
  if (growth > Bytes{0} && round_up(growth, pool.growth) != growth) {
    std::size_t available = 0;
    std::size_t total = 0;
    const bool device_had_room = real<cuMemGetInfo_v2_t>(Symbol::cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS &&
                                 available >= kAssumedGrowth.count();
    if (device_had_room) pool.growth = kGranule;  // otherwise the pool took the rest of the device
  }
  pool.map.taken(address, size, growth.count(), expected.count());
}

/// Enters the possible growth of the pool. Requires the pool's mutex, but releases it while the request waits for other
/// memory to come back.
bool enter_growth(Pool& pool, std::uint64_t size, Bytes& entered, const char* function) noexcept {
  entered = possible_growth(pool, size);
  if (entered > Bytes{0} && !admit_quietly(pool.account, entered, Kind::kPool)) {
    pool.mutex.unlock();  // a refresh before a denial visits every pool, including this one
    const bool admitted = pool.account == kHostAccount ? admit(kHostAccount, entered, Kind::kPool, function)
                                                       : admit_on(pool.device, entered, Kind::kPool, function);
    pool.mutex.lock();
    if (!admitted) entered = Bytes{0};
    if (!admitted && possible_growth(pool, size) > Bytes{0}) return false;
  }
  pool.charged += entered;
  return true;
}

/// One allocation. `call(bytes)` calls the driver.
template <typename Call>
struct Taking {
  CUstream stream;
  std::size_t size;
  const char* function;
  CUdeviceptr* out;
  Call& call;
  std::uint64_t seen = 0;              // the value of `meanings` when the source was determined
  bool stale = false;                  // true if the source is out of date, so that nothing was taken
  CUresult error = CUDA_SUCCESS;       // the driver's error if the call failed
  std::uint32_t account = kNoAccount;  // the account of the pool that gave the memory
};

/// Allocates from the pool. Sets `refused` to the bytes that the driver lacked although the book had granted them.
template <typename Call>
CUresult take_once(Pool& pool, Taking<Call>& taking, Bytes& refused) noexcept {
  const auto& [stream, size, function, out, call, seen, stale, error, account] = taking;
  const Guard guard(pool.mutex);
  Bytes entered;
  if (!enter_growth(pool, size, entered, function)) return CUDA_ERROR_OUT_OF_MEMORY;
  const Bytes before = pool.reserved;
  CUresult result = CUDA_SUCCESS;
  {
    const Gate::Pass pass(meaning);
    taking.stale = pool.destroyed || meanings.load() != seen;
    if (!stale) result = call(size);
  }
  if (stale) {
    refund(pool, entered);
    pool.charged -= entered;
    return result;
  }
  const bool fits = follow(pool, Beyond::kLeave);
  if (result != CUDA_SUCCESS) {
    taking.error = result;
    taking.account = pool.account;
    if (!fits) follow(pool);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) refused = Bytes{size};
    return result;
  }
  if (fits) {
    learn(pool, *out, size, before, entered);
    loans.insert(*out, Loan{size, &pool});
    taking.account = pool.account;
    taking.error = CUDA_SUCCESS;  // an earlier attempt may have failed
    return result;
  }
  // The pool grew past the limit by more than was foreseen, so everything is given back and the request is denied.
  const WhileOthersCapture relaxed;
  pool.map.distrust();
  real<cuMemFreeAsync_t>(Symbol::cuMemFreeAsync)(*out, stream);
  real<cuStreamSynchronize_t>(Symbol::cuStreamSynchronize)(stream);
  freed_since_synchronisation.store(
      true, std::memory_order_release);  // memory that other pools gave up as well is noticed later
  real<cuMemPoolTrimTo_t>(Symbol::cuMemPoolTrimTo)(pool.handle.load(), 0);
  follow(pool);
  deny(pool.account, Bytes{size}, book::DenialReason::kLimit, function, book::kUnknownBytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// Makes an allocation that takes nothing from a pool of the table: host memory that the book does not count, or a node
/// of a graph, which is charged when the graph is launched.
template <typename Call>
CUresult take_uncharged(Taking<Call>& taking) noexcept {
  const Gate::Pass pass(meaning);
  taking.stale = meanings.load() != taking.seen;
  return taking.stale ? CUDA_SUCCESS : taking.call(taking.size);
}

template <typename Call>
CUresult take_from(const Source& source, Taking<Call>& taking) noexcept {
  if (source.kind == Source::Kind::kNoDevice) return take_uncharged(taking);
  if (source.kind == Source::Kind::kFull) {
    deny_for_table(account_of(source.device), Bytes{taking.size}, taking.function, pool_table::kMost);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (source.kind == Source::Kind::kUndetermined) {
    (void)admit(kNoAccount, Bytes{taking.size}, Kind::kPool, taking.function);  // records the denial
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return while_device_is_full(source.pool->account, taking.function,
                              [&](Bytes& refused) { return take_once(*source.pool, taking, refused); });
}

/// Allocates from the source that `find()` determines.
template <typename Find, typename Call>
CUresult take(Find&& find, CUstream stream, std::size_t size, const char* function, CUdeviceptr* out,
              Call&& call) noexcept {
  if (size == 0) return call(size);
  return recorded_or_not([&]<typename Event>() noexcept -> CUresult {
    Event event(trace::Kind::kAllocate, size, stream);
    for (;;) {
      Taking<Call> taking{stream, size, function, out, call, meanings.load()};
      // Questions about a stream that is being captured, and wrong requests, may invalidate the capture.
      const bool of_graph = is_capturing(stream);
      Source source = of_graph ? Source{Source::Kind::kNoDevice, nullptr} : find();
      if (source.kind == Source::Kind::kNone) {
        // A request for no bytes gets the driver's own error and takes nothing, even if another thread makes the source
        // valid now.
        const CUresult wrong = call(0);
        if (wrong != CUDA_ERROR_INVALID_VALUE && wrong != CUDA_SUCCESS) return wrong;
        source = find();
        if (source.kind == Source::Kind::kNone && wrong != CUDA_SUCCESS) return wrong;
        if (source.kind == Source::Kind::kNone) source.kind = Source::Kind::kUndetermined;
      }
      const CUresult result = take_from(source, taking);
      if (taking.stale) continue;
      event.failed(taking.error, taking.account);
      if (result == CUDA_SUCCESS && taking.account != kNoAccount) event.done(*out, taking.account);
      return result;
    }
  });
}

/// Ends the charge of a destroyed pool whose memory has all been freed.
void end(Pool& pool) noexcept {
  refund(pool, pool.charged);
  pool.charged = Bytes{0};
  pool_table::release(pool);
}

/// Frees by `call` the memory that a pool handed out. Holds the pool's mutex meanwhile: once the driver has the bytes
/// back, another thread may receive them.
template <typename Event, typename Call>
CUresult return_loan_as(CUdeviceptr address, const Loan& loan, CUstream stream, Call&& call) noexcept {
  Pool& pool = *loan.pool;
  const Guard guard(pool.mutex);
  Event event(trace::Kind::kFree, loan.size, stream);
  const CUresult result = call();
  event.failed(result, pool.account);
  if (result != CUDA_SUCCESS) {
    loans.insert(address, loan);
    return result;
  }
  event.done(address, pool.account);
  pool.map.returned(address, loan.size);
  if (std::uint64_t piece = 0; pool.number != 0 && pieces.take(address, piece)) book().shared_memory().leave(piece);
  freed_since_synchronisation.store(true, std::memory_order_release);
  if (!pool.destroyed) return result;
  pool.outstanding -= std::min<std::uint64_t>(pool.outstanding, loan.size);
  if (pool.outstanding == 0) end(pool);
  return result;
}

template <typename Call>
CUresult return_loan(CUdeviceptr address, const Loan& loan, CUstream stream, Call&& call) noexcept {
  return recorded_or_not([&]<typename Event>() noexcept { return return_loan_as<Event>(address, loan, stream, call); });
}

/// Frees memory once the stream reaches the call. `given` is the stream as the program passed it; `stream` is the value
/// of the same stream for functions without a per-thread default stream.
CUresult free_on_stream(Symbol symbol, CUdeviceptr address, CUstream given, CUstream stream) noexcept {
  auto* call_real = real<cuMemFreeAsync_t>(symbol);
  if (!governed()) return call_real(address, given);
  // Trims only at the first free after a synchronisation: memory that later frees release stays in use until the next
  // synchronisation, so another trim would return nothing.
  if (!freed_since_synchronisation.load(std::memory_order_relaxed)) trim_if_asked(stream);
  Loan loan;
  if (loans.take(address, loan)) return return_loan(address, loan, stream, [&] { return call_real(address, given); });
  CUresult result = CUDA_SUCCESS;
  if (free_block_on_stream(address, stream, call_real, given, result)) {
    freed_since_synchronisation.store(true, std::memory_order_release);
    return result;
  }
  ClosingImport closing(address);
  result = call_real(address, given);
  if (result != CUDA_SUCCESS) return result;
  closing.closed();
  graph_allocation_was_freed(address);
  return result;
}

CUresult allocate(Symbol symbol, CUdeviceptr* out, std::size_t size, CUstream stream) noexcept {
  auto* call_real = real<cuMemAllocAsync_t>(symbol);
  if (!governed() || out == nullptr) return call_real(out, size, stream);
  Written<CUdeviceptr> given;
  const CUresult result = take([&] { return source_of(stream); }, stream, size, "cuMemAllocAsync", given.place(),
                               [&](std::size_t bytes) { return call_real(given.place(), bytes, stream); });
  given.hand_on(out);
  return result;
}

CUresult allocate_from(Symbol symbol, CUdeviceptr* out, std::size_t size, CUmemoryPool handle,
                       CUstream stream) noexcept {
  auto* call_real = real<cuMemAllocFromPoolAsync_t>(symbol);
  if (!governed() || out == nullptr) return call_real(out, size, handle, stream);
  Written<CUdeviceptr> given;
  const CUresult result =
      take([&] { return source_of(handle, stream); }, stream, size, "cuMemAllocFromPoolAsync", given.place(),
           [&](std::size_t bytes) { return call_real(given.place(), bytes, handle, stream); });
  given.hand_on(out);
  return result;
}

/// Visits the pools that have reserved memory.
template <typename Visit>
void each_pool(Visit&& visit) noexcept {
  const std::uint32_t count = pool_table::size();
  for (std::uint32_t i = 0; i < count; ++i) {
    Pool& pool = pool_table::at(i);
    const Guard guard(pool.mutex);
    if (!pool.destroyed && (pool.reserved > Bytes{0} || pool.charged > Bytes{0})) visit(pool);
  }
}

}  // namespace

void refresh_pools() noexcept {
  each_pool([](Pool& pool) { follow(pool); });
  if (refund_what_streams_freed()) freed_since_synchronisation.store(true, std::memory_order_release);
}

void trim_pools() noexcept {
  const WhileOthersCapture relaxed;
  each_pool([](Pool& pool) {
    real<cuMemPoolTrimTo_t>(Symbol::cuMemPoolTrimTo)(pool.handle.load(), 0);
    follow(pool);
  });
}

void pools_after_synchronisation() noexcept {
  if (!freed_since_synchronisation.load(std::memory_order_acquire)) return;
  freed_since_synchronisation.store(false, std::memory_order_release);
  refresh_pools();
}

bool free_pool_pointer(CUdeviceptr address, CUresult& result) noexcept {
  Loan loan;
  if (!loans.take(address, loan)) return false;
  result = return_loan(address, loan, nullptr, [&] { return real<cuMemFree_v2_t>(Symbol::cuMemFree_v2)(address); });
  return true;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  loans.abandon();
  pieces.abandon();
  meaning.abandon();
  pool_table::abandon();
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;
using ration::Bytes;

RATION_HOOK CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t size, CUstream stream) {
  return allocate(Symbol::cuMemAllocAsync, out, size, stream);
}
RATION_HOOK CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, std::size_t size, CUstream stream) {
  return allocate(Symbol::cuMemAllocAsync_ptsz, out, size, stream);
}
RATION_HOOK CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t size, CUmemoryPool pool, CUstream stream) {
  return allocate_from(Symbol::cuMemAllocFromPoolAsync, out, size, pool, stream);
}
RATION_HOOK CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, std::size_t size, CUmemoryPool pool,
                                                  CUstream stream) {
  return allocate_from(Symbol::cuMemAllocFromPoolAsync_ptsz, out, size, pool, stream);
}

RATION_HOOK CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return free_on_stream(Symbol::cuMemFreeAsync, address, stream, stream);
}
RATION_HOOK CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  const auto per_thread = reinterpret_cast<CUstream>(std::uintptr_t{2});
  return free_on_stream(Symbol::cuMemFreeAsync_ptsz, address, stream, stream == nullptr ? per_thread : stream);
}

RATION_HOOK CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (properties != nullptr && properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) note(Unmovable::kManaged);
  if (!governed() || out == nullptr || properties == nullptr)
    return real<cuMemPoolCreate_t>(Symbol::cuMemPoolCreate)(out, properties);
  const CUmemPoolProps asked = *properties;
  Written<CUmemoryPool> written;
  const CUresult result = real<cuMemPoolCreate_t>(Symbol::cuMemPoolCreate)(written.place(), &asked);
  written.hand_on(out);
  if (result != CUDA_SUCCESS) return result;
  const CUmemoryPool made = written.value();
  const PoolOrigin origin = origin_of(asked);
  const bool of_host = origin.kind == PoolOrigin::Kind::kHost;
  if (of_host && !counts_host()) remember_elsewhere(made, Elsewhere::kHost);
  if (origin.kind == PoolOrigin::Kind::kAnywhere) remember_elsewhere(made, Elsewhere::kAnywhere);
  const bool is_charged = origin.kind == PoolOrigin::Kind::kDevice || (of_host && counts_host());
  if (!is_charged || add_pool(made, of_host ? kHostDevice : origin.device) != nullptr) return result;
  real<cuMemPoolDestroy_t>(Symbol::cuMemPoolDestroy)(made);
  deny_for_table(account_of(origin.device), Bytes{0}, "cuMemPoolCreate", pool_table::kMost);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

RATION_HOOK CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  auto* call_real = real<cuMemPoolDestroy_t>(Symbol::cuMemPoolDestroy);
  if (!governed()) return call_real(handle);
  Elsewhere place{};
  const bool is_elsewhere = forget_elsewhere(handle, place);
  Pool* pool = pool_table::find(handle);
  if (pool == nullptr) {
    const CUresult result = change_meaning([&] { return call_real(handle); });
    if (result != CUDA_SUCCESS && is_elsewhere) remember_elsewhere(handle, place);
    return result;
  }
  const Guard guard(pool->mutex);
  Bytes handed_out;
  const bool known = read_attribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, handed_out);
  pool_table::forget_handle(*pool);  // comes before the call, because afterwards another pool may have the handle
  const CUresult result = change_meaning([&] { return call_real(handle); });
  if (result != CUDA_SUCCESS) {
    (void)pool_table::remember_handle(*pool, handle);
    return result;
  }
  pool->destroyed = true;  // memory handed out lives on, and so does its charge
  pool->outstanding = 0;
  loans.each([&](std::uint64_t, const Loan& loan) {
    if (loan.pool == pool) pool->outstanding += loan.size;
  });
  if (pool->outstanding == 0 && (!known || handed_out == Bytes{0})) end(*pool);
  return result;
}

RATION_HOOK CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return change_meaning([&] { return real<cuDeviceSetMemPool_t>(Symbol::cuDeviceSetMemPool)(device, pool); });
}
RATION_HOOK CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return change_meaning([&] { return real<cuMemSetMemPool_t>(Symbol::cuMemSetMemPool)(location, type, pool); });
}
RATION_HOOK CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  return change_meaning([&] { return real<cuStreamEndCapture_t>(Symbol::cuStreamEndCapture)(stream, out); });
}
RATION_HOOK CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* out) {
  return change_meaning([&] { return real<cuStreamEndCapture_t>(Symbol::cuStreamEndCapture_ptsz)(stream, out); });
}

RATION_HOOK CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t keep) {
  const CUresult result = real<cuMemPoolTrimTo_t>(Symbol::cuMemPoolTrimTo)(handle, keep);
  if (governed()) refresh_pools();
  return result;
}

RATION_HOOK CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  const CUresult result = real<cuMemPoolSetAttribute_t>(Symbol::cuMemPoolSetAttribute)(handle, attribute, value);
  if (result != CUDA_SUCCESS || !governed()) return result;
  // If reuse across streams is restricted, free memory might not serve a request on another stream.
  const bool reuse = attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
                     attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
                     attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
  if (Pool* pool = reuse ? pool_table::find(handle) : nullptr; pool != nullptr) {
    const Guard guard(pool->mutex);
    pool->map.distrust();
  }
  refresh_pools();  // a lower release threshold may give memory back
  return result;
}

// Names an exported pointer in the book. Other processes can open the pointer; an open pointer keeps the memory around
// it alive. The export of a pool alone gives other processes no memory.
RATION_HOOK CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  note(Unmovable::kShared);
  const CUresult result = real<cuMemPoolExportPointer_t>(Symbol::cuMemPoolExportPointer)(out, address);
  Loan loan;
  if (result != CUDA_SUCCESS || !governed() || !loans.find(address, loan)) return result;
  Pool& pool = *loan.pool;
  const Guard guard(pool.mutex);
  if (pool.number == 0) pool.number = ration::book::draw_number();
  lend(pool);
  std::uint64_t piece = 0;
  if (!pieces.find(address, piece)) {
    piece = book().shared_memory().share(pool.account, Bytes{0}, Kind::kPool, pool.number);
    if (piece != 0) pieces.insert(address, piece);
  }
  (void)book().shared_memory().add_name(piece, name_of(out, sizeof *out));
  return result;
}
RATION_HOOK CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* shared, CUmemAllocationHandleType type,
                                                        unsigned long long flags) {
  note(Unmovable::kShared);
  const CUresult result =
      real<cuMemPoolImportFromShareableHandle_t>(Symbol::cuMemPoolImportFromShareableHandle)(out, shared, type, flags);
  if (result == CUDA_SUCCESS && governed()) remember_elsewhere(*out, Elsewhere::kImported);
  return result;
}

// Defines a hook that corrects the book after a synchronisation. Freed stream-ordered memory then leaves its pool, and
// other processes of the workload may take it.
#define RATION_SYNCHRONISE(name, type, parameters, arguments)   \
  RATION_HOOK CUresult name parameters {                        \
    const CUresult result = real<type>(Symbol::name) arguments; \
    if (governed() && result == CUDA_SUCCESS) {                 \
      pools_after_synchronisation();                            \
      trim_if_asked();                                          \
    }                                                           \
    return result;                                              \
  }
RATION_SYNCHRONISE(cuStreamSynchronize, cuStreamSynchronize_t, (CUstream stream), (stream))
RATION_SYNCHRONISE(cuStreamSynchronize_ptsz, cuStreamSynchronize_t, (CUstream stream), (stream))
RATION_SYNCHRONISE(cuEventSynchronize, cuEventSynchronize_t, (CUevent event), (event))
RATION_SYNCHRONISE(cuCtxSynchronize, cuCtxSynchronize_t, (), ())
RATION_SYNCHRONISE(cuCtxSynchronize_v2, cuCtxSynchronize_v2_t, (CUcontext context), (context))
#undef RATION_SYNCHRONISE
