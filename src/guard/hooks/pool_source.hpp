// The choice of the pool that serves a stream-ordered allocation at this moment. Used by the pool hooks.
#pragma once

#include "driver/cuda_abi.hpp"
#include "guard/hooks/pool_table.hpp"

namespace ration::guard {

/// Pools that have no entry in the table.
enum class Elsewhere : int {
  kImported,  ///< a pool of another process, from which nothing is taken here
  kHost,      ///< a pool of the host, if the book does not count host memory
  kAnywhere,  ///< a pool of managed memory, which is charged to the device where it is first used
};

/// Remembers a pool that must not be in the table, until forget_elsewhere().
void remember_elsewhere(cuda::CUmemoryPool pool, Elsewhere what) noexcept;
/// Forgets the pool and sets `what` to its kind. Returns false if the pool was not remembered.
bool forget_elsewhere(cuda::CUmemoryPool pool, Elsewhere& what) noexcept;

/// The source of an allocation.
struct Source {
  enum class Kind {
    kPool,
    kNoDevice,
    kFull,          ///< the table has no room for the pool
    kUndetermined,  ///< the pool exists, but where its memory lies cannot be determined
    kNone,          ///< there is no pool at this moment, so the call is wrong
  } kind = Kind::kNone;
  Pool* pool = nullptr;
  cuda::CUdevice device = -1;  ///< valid for kFull
};

/// Returns the source of an allocation from that pool on the stream.
[[nodiscard]] Source source_of(cuda::CUmemoryPool pool, cuda::CUstream stream) noexcept;
/// Returns the source of an allocation on this stream: the current pool of its device.
[[nodiscard]] Source source_of(cuda::CUstream stream) noexcept;

/// Enters a pool of that device, or of kHostDevice. Returns null if the table is full.
Pool* add_pool(cuda::CUmemoryPool pool, cuda::CUdevice device) noexcept;

/// Reads an attribute that is a number of bytes or a switch. Returns false if the driver does not know the attribute or
/// the pool.
[[nodiscard]] bool read_attribute(cuda::CUmemoryPool pool, cuda::CUmemPool_attribute attribute, Bytes& out) noexcept;

}  // namespace ration::guard
