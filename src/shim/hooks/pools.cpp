// Stream-ordered memory. A pool is charged for what it reserves from the device, not for what it hands out: memory that
// it keeps after a free is still held. The driver grows and shrinks a pool as it likes, so the charge follows the
// driver's own figure, read again after every call that may have changed it. What a request may make the pool grow by
// is entered beforehand, unless the map of its free memory shows that it need not grow at all.
#include <algorithm>
#include <atomic>

#include "driver/cuda_graph_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "ledger/descriptor_label.hpp"
#include "shim/hooks/after_fork.hpp"
#include "shim/hooks/gate.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/graphs.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/imports.hpp"
#include "shim/hooks/pool_origin.hpp"
#include "shim/hooks/pool_source.hpp"
#include "shim/hooks/pool_table.hpp"
#include "shim/hooks/table.hpp"
#include "shim/hooks/written.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

/// A pointer handed out by a pool.
struct Loan {
  std::uint64_t size = 0;
  std::uint32_t pool = 0;
};

Table<Loan> loans;
Table<std::uint64_t> pieces;  // pointers that were exported -> their numbers in the book
std::atomic<bool> freed_since_refresh{false};

// Passed from the last look at where an allocation comes from to the driver's call. What gives a handle, a device or a
// stream another meaning is alone there, and counts: a look before it is of no use any more.
Gate meaning;
std::atomic<std::uint64_t> meanings{0};

template <typename Call>
CUresult change_meaning(Call&& call) noexcept {
  const Gate::Alone alone(meaning);
  const CUresult result = call();
  meanings.fetch_add(1);
  return result;
}

/// Where a pointer was exported, freed here, and is still held by another process, what the pool gives up may be what
/// that pointer lies in, so that it stays charged; which of a pool's memory it is, the driver does not tell.
void refund(Pool& pool, Bytes size) noexcept {
  const Bytes own = std::min(size, pool.charged - std::min(pool.charged, pool.lent));
  give_back(pool.account, own, Kind::kPool);
  if (own == size) return;
  book().shared_memory().give_up(pool.number, pool.account, size - own, Kind::kPool);
  pool.lent = pool.lent - std::min(pool.lent, size - own);
}

/// What others may come to hold of the pool is what it has.
void lend(Pool& pool) noexcept {
  if (pool.number == 0 || pool.lent == pool.charged) return;
  book().shared_memory().set_lent(pool.number, pool.account, pool.charged, Kind::kPool);
  pool.lent = pool.charged;
}

/// What a pool has that the limit does not admit.
enum class Beyond {
  kLeave,   // the caller hands it back
  kCharge,  // it is there: until it goes, all else is denied
};

/// Makes the charge equal to what the pool reserves now. Under the pool's mutex. False: it grew past the limit.
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

bool capturing(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return real<cuStreamIsCapturing_t>(Symbol::cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// What the pool may grow by when asked for `size`.
Bytes possible_growth(Pool& pool, std::uint64_t size) noexcept {
  return pool.map.fits(size) ? Bytes{0} : round_up(Bytes{size}, pool.growth);
}

/// What the call just made shows about how the driver runs this pool. Under the pool's mutex.
void learn(Pool& pool, CUdeviceptr address, std::uint64_t size, Bytes before, Bytes expected) noexcept {
  const Bytes growth = pool.reserved > before ? pool.reserved - before : Bytes{0};
  if (growth > Bytes{0} && expected == Bytes{0}) pool.map.distrust();
  if (round_up(growth, pool.growth) != growth) {
    std::size_t available = 0;
    std::size_t total = 0;
    const bool device_had_room = real<cuMemGetInfo_v2_t>(Symbol::cuMemGetInfo_v2)(&available, &total) == CUDA_SUCCESS &&
                                 available >= kAssumedGrowth.count();
    if (device_had_room) pool.growth = kGranule;  // else it took what was left, for once
  }
  pool.map.taken(address, size, growth.count());
}

/// Enters what the pool may grow by. Under the pool's mutex, which is released while others give back what they keep.
bool enter_growth(Pool& pool, std::uint64_t size, Bytes& entered, const char* function) noexcept {
  entered = possible_growth(pool, size);
  if (entered > Bytes{0} && !admit_quietly(pool.account, entered, Kind::kPool)) {
    pool.mutex.unlock();  // a refresh before a denial visits every pool, this one too
    const bool admitted = admit_on(pool.device, entered, Kind::kPool, function);
    pool.mutex.lock();
    if (!admitted) entered = Bytes{0};
    if (!admitted && possible_growth(pool, size) > Bytes{0}) return false;
  }
  pool.charged += entered;
  return true;
}

/// One allocation. `call(bytes)` makes the driver's.
template <typename Call>
struct Taking {
  CUstream stream;
  std::size_t size;
  const char* function;
  CUdeviceptr* out;
  Call& call;
  std::uint64_t seen = 0;  // of `meanings`, when it was looked where the memory comes from
  bool stale = false;      // that look is of no use any more: nothing was taken
};

/// `refused`: what the driver itself had no memory for, though the book granted it.
template <typename Call>
CUresult take_once(Pool& pool, Taking<Call>& taking, Bytes& refused) noexcept {
  const auto& [stream, size, function, out, call, seen, stale] = taking;
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
    if (!fits) follow(pool);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) refused = Bytes{size};
    return result;
  }
  if (fits) {
    learn(pool, *out, size, before, entered);
    loans.insert(*out, Loan{size, pool.index});
    return result;
  }
  // It grew by more than could be foreseen: hand everything back and deny.
  pool.map.distrust();
  real<cuMemFreeAsync_t>(Symbol::cuMemFreeAsync)(*out, stream);
  real<cuStreamSynchronize_t>(Symbol::cuStreamSynchronize)(stream);
  real<cuMemPoolTrimTo_t>(Symbol::cuMemPoolTrimTo)(pool.handle.load(), 0);
  follow(pool);
  book().denials().record(pool.account, Bytes{size}, ledger::DenialReason::kLimit, function, ledger::kUnknownBytes, 0);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// What takes nothing of a pool of the table: memory of the host, and a node of a graph, which is taken, and charged,
/// when the graph is launched.
template <typename Call>
CUresult take_uncharged(Taking<Call>& taking) noexcept {
  const Gate::Pass pass(meaning);
  taking.stale = meanings.load() != taking.seen;
  return taking.stale ? CUDA_SUCCESS : taking.call(taking.size);
}

template <typename Call>
CUresult take_from(const Source& source, Taking<Call>& taking) noexcept {
  if (source.kind == Source::Kind::kNoDevice || capturing(taking.stream)) return take_uncharged(taking);
  if (source.kind == Source::Kind::kFull) {
    deny_for_table(account_of(source.device), Bytes{taking.size}, taking.function, pool_table::kMost);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (source.kind == Source::Kind::kUntold) {
    (void)admit(kNoAccount, Bytes{taking.size}, Kind::kPool, taking.function);  // puts the denial on the record
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return while_device_is_full(source.pool->account, taking.function,
                              [&](Bytes& refused) { return take_once(*source.pool, taking, refused); });
}

/// `find()` looks where the memory comes from.
template <typename Find, typename Call>
CUresult take(Find&& find, CUstream stream, std::size_t size, const char* function, CUdeviceptr* out,
              Call&& call) noexcept {
  if (size == 0) return call(size);
  for (;;) {
    Taking<Call> taking{stream, size, function, out, call, meanings.load()};
    Source source = find();
    if (source.kind == Source::Kind::kNone) {
      // Of no bytes it can only be said what is wrong. Another thread may make it right at any moment.
      const CUresult wrong = call(0);
      if (wrong != CUDA_ERROR_INVALID_VALUE) return wrong;
      source = find();
      if (source.kind == Source::Kind::kNone) return wrong;
    }
    const CUresult result = take_from(source, taking);
    if (!taking.stale) return result;
  }
}

/// Nothing of a destroyed pool is left.
void end(Pool& pool) noexcept {
  refund(pool, pool.charged);
  pool.charged = Bytes{0};
  pool_table::release(pool);
}

/// `call` frees what a pool handed out. Under the pool's mutex: once the driver has it back, another thread may be
/// handed the same bytes.
template <typename Call>
CUresult return_loan(CUdeviceptr address, const Loan& loan, Call&& call) noexcept {
  Pool& pool = pool_table::at(loan.pool);
  const Guard guard(pool.mutex);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    loans.insert(address, loan);
    return result;
  }
  pool.map.returned(address, loan.size);
  if (std::uint64_t piece = 0; pieces.take(address, piece)) book().shared_memory().leave(piece);
  freed_since_refresh.store(true, std::memory_order_release);
  if (!pool.destroyed) return result;
  pool.outstanding -= std::min<std::uint64_t>(pool.outstanding, loan.size);
  if (pool.outstanding == 0) end(pool);
  return result;
}

/// `told`: the stream as the driver is given it; `stream`: the same for functions without a default of each thread.
CUresult free_on_stream(Symbol symbol, CUdeviceptr address, CUstream told, CUstream stream) noexcept {
  auto* call_real = real<cuMemFreeAsync_t>(symbol);
  if (!governed()) return call_real(address, told);
  Loan loan;
  if (loans.take(address, loan)) return return_loan(address, loan, [&] { return call_real(address, told); });
  CUresult result = CUDA_SUCCESS;
  if (free_block_on_stream(address, stream, call_real, told, result)) {
    freed_since_refresh.store(true, std::memory_order_release);
    return result;
  }
  ClosingImport closing(address);
  result = call_real(address, told);
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

/// Those that have reserved something.
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
  freed_since_refresh.store(false, std::memory_order_release);
  each_pool([](Pool& pool) { follow(pool); });
  if (refund_what_streams_freed()) freed_since_refresh.store(true, std::memory_order_release);
}

void trim_pools() noexcept {
  each_pool([](Pool& pool) {
    real<cuMemPoolTrimTo_t>(Symbol::cuMemPoolTrimTo)(pool.handle.load(), 0);
    follow(pool);
  });
}

void pools_after_synchronisation() noexcept {
  if (freed_since_refresh.load(std::memory_order_acquire)) refresh_pools();
}

bool free_pool_pointer(CUdeviceptr address, CUresult& result) noexcept {
  Loan loan;
  if (!loans.take(address, loan)) return false;
  result = return_loan(address, loan, [&] { return real<cuMemFree_v2_t>(Symbol::cuMemFree_v2)(address); });
  return true;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  loans.abandon();
  pieces.abandon();
  meaning.abandon();
  pool_table::abandon();
});

}  // namespace ration::shim

using namespace ration::shim;
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
  if (origin.kind == PoolOrigin::Kind::kHost) remember_elsewhere(made, Elsewhere::kHost);
  if (origin.kind == PoolOrigin::Kind::kAnywhere) remember_elsewhere(made, Elsewhere::kAnywhere);
  if (origin.kind != PoolOrigin::Kind::kDevice || add_pool(made, origin.device) != nullptr) return result;
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
  pool_table::forget_handle(*pool);  // before the call: then another pool may have it
  const CUresult result = change_meaning([&] { return call_real(handle); });
  if (result != CUDA_SUCCESS) {
    pool_table::remember_handle(*pool);
    return result;
  }
  pool->destroyed = true;  // memory handed out lives on, and with it the charge
  pool->outstanding = 0;
  loans.each([&](std::uint64_t, const Loan& loan) {
    if (loan.pool == pool->index) pool->outstanding += loan.size;
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
  // With reuse across streams restricted, free memory may not do for a request on another stream.
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

// A pool that is exported hands nothing out by itself; a pointer of it that is exported, too, can be opened by others,
// who then keep alive what it lies in.
RATION_HOOK CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  note(Unmovable::kShared);
  const CUresult result = real<cuMemPoolExportPointer_t>(Symbol::cuMemPoolExportPointer)(out, address);
  Loan loan;
  if (result != CUDA_SUCCESS || !governed() || !loans.find(address, loan)) return result;
  Pool& pool = pool_table::at(loan.pool);
  const Guard guard(pool.mutex);
  if (pool.number == 0) pool.number = ration::ledger::draw_number();
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

// Freed stream-ordered memory leaves a pool at the next synchronisation: other processes of the workload may then have
// it.
#define RATION_SYNCHRONISE(name, type, parameters, arguments)   \
  RATION_HOOK CUresult name parameters {                        \
    const CUresult result = real<type>(Symbol::name) arguments; \
    if (governed()) pools_after_synchronisation();              \
    return result;                                              \
  }
RATION_SYNCHRONISE(cuStreamSynchronize, cuStreamSynchronize_t, (CUstream stream), (stream))
RATION_SYNCHRONISE(cuStreamSynchronize_ptsz, cuStreamSynchronize_t, (CUstream stream), (stream))
RATION_SYNCHRONISE(cuEventSynchronize, cuEventSynchronize_t, (CUevent event), (event))
RATION_SYNCHRONISE(cuCtxSynchronize, cuCtxSynchronize_t, (), ())
RATION_SYNCHRONISE(cuCtxSynchronize_v2, cuCtxSynchronize_v2_t, (CUcontext context), (context))
#undef RATION_SYNCHRONISE
