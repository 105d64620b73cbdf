#include "guard/hooks/pool_table.hpp"

#include <sys/mman.h>

#include <new>

#include "guard/hooks/table.hpp"

namespace ration::guard::pool_table {
namespace {

using cuda::CUmemoryPool;

constexpr std::uint32_t kChunk = 256;
constexpr std::uint32_t kMostChunks = kMost / kChunk;

Pool first_chunk[kChunk];  // enough for most programs
std::atomic<Pool*> chunks[kMostChunks] = {first_chunk};
std::atomic<std::uint32_t> places{0};
Table<std::uint32_t> index_of;  // the key is the handle
Table<bool> free_places;        // the key is the index + 1
std::atomic<std::uint32_t> free_count{0};
SpinLock adding;

// Recently found pools, indexed by a hash of the handle, so that finding them needs no lock. A pool loses its handle
// when the table forgets the handle, so an entry whose pool has another handle is skipped.
constexpr std::size_t kRecent = 64;
std::atomic<Pool*> recent[kRecent];

std::uint64_t key_of(CUmemoryPool handle) noexcept { return reinterpret_cast<std::uint64_t>(handle); }

std::atomic<Pool*>& recent_at(CUmemoryPool handle) noexcept {
  return recent[(key_of(handle) >> 12 ^ key_of(handle) >> 4) % kRecent];
}

[[gnu::noinline]] Pool* find_in_table(CUmemoryPool handle) noexcept {
  std::uint32_t index = 0;
  if (!index_of.find(key_of(handle), index)) return nullptr;
  recent_at(handle).store(&at(index), std::memory_order_release);
  return &at(index);
}

/// Takes a free or a new index. Returns false if there is not enough memory.
bool take_place(std::uint32_t& out) noexcept {
  std::uint64_t found = 0;
  if (free_count.load() > 0) free_places.each([&](std::uint64_t key, bool) { found = key; });
  bool is_free = false;
  if (found != 0 && free_places.take(found, is_free)) {
    free_count.fetch_sub(1);
    out = static_cast<std::uint32_t>(found - 1);
    return true;
  }
  out = places.load(std::memory_order_relaxed);
  const std::uint32_t chunk = out / kChunk;
  if (chunk >= kMostChunks) return false;
  if (chunks[chunk].load(std::memory_order_relaxed) == nullptr) {
    void* memory = ::mmap(nullptr, kChunk * sizeof(Pool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    auto* made = static_cast<Pool*>(memory);
    for (std::uint32_t i = 0; i < kChunk; ++i) new (made + i) Pool;
    chunks[chunk].store(made, std::memory_order_release);
  }
  places.store(out + 1, std::memory_order_release);
  return true;
}

}  // namespace

Pool* find(CUmemoryPool handle) noexcept {
  if (handle == nullptr) return nullptr;  // forgotten pools have a null handle
  Pool* pool = recent_at(handle).load(std::memory_order_acquire);
  if (pool != nullptr && pool->handle.load(std::memory_order_acquire) == handle) [[likely]]
    return pool;
  return find_in_table(handle);
}

Pool& at(std::uint32_t index) noexcept {
  return chunks[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
}

Pool* add(CUmemoryPool handle, cuda::CUdevice device) noexcept {
  const SpinGuard guard(adding);
  if (Pool* present = find(handle); present != nullptr) return present;
  std::uint32_t index = 0;
  if (!take_place(index)) return nullptr;
  Pool& pool = at(index);
  pool.index = index;
  pool.device = device;
  pool.account = device == kHostDevice ? kHostAccount : account_of(device);
  pool.charged = Bytes{0};
  pool.reserved = Bytes{0};
  pool.map.clear();
  pool.growth = kAssumedGrowth;
  pool.outstanding = 0;
  pool.destroyed = false;
  pool.number = 0;
  pool.lent = Bytes{0};
  if (remember_handle(pool, handle)) return &pool;
  pool.handle.store(nullptr);
  release(pool);
  return nullptr;
}

void forget_handle(Pool& pool) noexcept {
  std::uint32_t index = 0;
  (void)index_of.take(key_of(pool.handle.exchange(nullptr)), index);
}

bool remember_handle(Pool& pool, CUmemoryPool handle) noexcept {
  pool.handle.store(handle, std::memory_order_release);
  return index_of.insert(key_of(handle), pool.index);
}

void release(Pool& pool) noexcept {
  if (free_places.insert(std::uint64_t{pool.index} + 1, true)) free_count.fetch_add(1);
}

std::uint32_t size() noexcept { return places.load(std::memory_order_acquire); }

void abandon() noexcept {
  for (std::uint32_t i = 0; i < size(); ++i) {
    Pool& pool = at(i);
    pool.mutex.renew();
    pool.handle.store(nullptr);
    pool.map.clear();
    pool.destroyed = false;
  }
  index_of.abandon();
  free_places.abandon();
  free_count.store(0);
  places.store(0);
  adding.unlock();
}

}  // namespace ration::guard::pool_table
