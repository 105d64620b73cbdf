// The stream-ordered pools of which this process took memory. Used by the pool hooks.
#pragma once

#include <pthread.h>

#include <atomic>

#include "base/bytes.hpp"
#include "driver/cuda_abi.hpp"
#include "shim/hooks/governor.hpp"
#include "shim/hooks/pool_map.hpp"

namespace ration::shim {

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

/// A pool grows by multiples of this (seen with the default pools of CUDA 11.2 to 13: reserved memory moves in 32 MiB).
/// Assumed until a pool has been seen to grow by something else.
inline constexpr Bytes kAssumedGrowth{std::uint64_t{32} << 20};

/// `charged` equals what it reserved when last read; under `mutex`.
struct Pool {
  Mutex mutex;
  std::atomic<cuda::CUmemoryPool> handle{nullptr};
  std::uint32_t index = 0;  // in the table
  cuda::CUdevice device = -1;
  std::uint32_t account = kNoAccount;
  Bytes charged;
  Bytes reserved;  // as last read
  PoolMap map;
  Bytes growth = kAssumedGrowth;
  std::uint64_t outstanding = 0;  // after destruction only: bytes handed out that live on
  bool destroyed = false;
  std::uint64_t number = 0;  // of the book, once it was exported
  Bytes lent;                // of what it is charged, entered there
};

/// Thread-safe. A pool keeps its address and its index until it is released. Grows with the pools of the process.
namespace pool_table {

/// So many pools may live at a time, in one process.
inline constexpr std::uint32_t kMost = 1 << 16;

/// Null: no such pool, or one that was destroyed.
[[nodiscard]] Pool* find(cuda::CUmemoryPool handle) noexcept;
[[nodiscard]] Pool& at(std::uint32_t index) noexcept;
/// The pool of that handle, which is new unless another thread has added it. Null: there is no room for it.
[[nodiscard]] Pool* add(cuda::CUmemoryPool handle, cuda::CUdevice device) noexcept;

/// Forgets the handle, which the driver may give out again; the pool stays. Under the pool's mutex.
void forget_handle(const Pool& pool) noexcept;
/// As before, where the driver did not destroy the pool.
void remember_handle(const Pool& pool) noexcept;
/// Its place may go to another pool.
void release(Pool& pool) noexcept;

/// How many places there are: of pools, of destroyed ones, and free ones.
[[nodiscard]] std::uint32_t size() noexcept;

/// In the child of a fork.
void abandon() noexcept;

}  // namespace pool_table

}  // namespace ration::shim
