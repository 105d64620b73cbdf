// The stream-ordered pools from which this process took memory. Used by the pool hooks.
#pragma once

#include <pthread.h>

#include <atomic>

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/pool_map.hpp"

namespace ration::guard {

class Mutex {
 public:
  void lock() noexcept { ::pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { ::pthread_mutex_unlock(&mutex_); }
  void renew() noexcept { ::pthread_mutex_init(&mutex_, nullptr); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

class Guard {
 public:
  explicit Guard(Mutex& mutex) noexcept : mutex_(mutex) { mutex_.lock(); }
  ~Guard() { mutex_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Mutex& mutex_;
};

/// The step by which pools grow. The default pools of CUDA 11.2 to 13 were seen to reserve and return memory in steps
/// of 32 MiB. This step is assumed until a pool has been seen to grow by another amount.
inline constexpr Bytes kAssumedGrowth{std::uint64_t{32} << 20};

/// The value of a pool's `device` that stands for the host.
inline constexpr cuda::CUdevice kHostDevice = -1;

/// A pool. `mutex` protects its figures; `charged` equals what the pool reserved when last read.
struct Pool {
  Mutex mutex;
  std::atomic<cuda::CUmemoryPool> handle{nullptr};  // null if the table does not know it by a handle
  std::uint32_t index = 0;                          // its index in the table
  cuda::CUdevice device = kHostDevice;
  std::uint32_t account = kNoAccount;
  Bytes charged;
  Bytes reserved;  // the bytes reserved when last read
  PoolMap map;
  Bytes growth = kAssumedGrowth;
  std::uint64_t outstanding = 0;  // after destruction, the bytes handed out that are still alive
  bool destroyed = false;
  std::uint64_t number = 0;  // the number in the book of an exported pool; 0 if not exported
  Bytes lent;                // the part of its charge that is entered under `number`
};

/// The table of pools. Thread-safe. A pool keeps its address and its index until it is released. The table grows with
/// the number of pools.
namespace pool_table {

/// The most pools that one process may have at a time.
inline constexpr std::uint32_t kMost = 1 << 16;

/// Returns the pool of that handle, or null if there is none or it was destroyed.
[[nodiscard]] Pool* find(cuda::CUmemoryPool handle) noexcept;
[[nodiscard]] Pool& at(std::uint32_t index) noexcept;
/// Returns the pool of that handle. Adds the pool unless another thread has added it already. Returns null if there is
/// no room.
[[nodiscard]] Pool* add(cuda::CUmemoryPool handle, cuda::CUdevice device) noexcept;

/// Forgets the handle, which the driver may reuse; the pool stays. Requires the pool's mutex.
void forget_handle(Pool& pool) noexcept;
/// Enters the pool under that handle, for the first time or again after the driver failed to destroy the pool. Returns
/// false if there is not enough memory.
bool remember_handle(Pool& pool, cuda::CUmemoryPool handle) noexcept;
/// Frees the pool's index for another pool.
void release(Pool& pool) noexcept;

/// Returns the number of indices so far: those of pools, of destroyed pools, and free ones.
[[nodiscard]] std::uint32_t size() noexcept;

/// Forgets all pools, in the child of a fork.
void abandon() noexcept;

}  // namespace pool_table

}  // namespace ration::guard
