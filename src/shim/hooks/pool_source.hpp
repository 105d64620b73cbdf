// Where a stream-ordered allocation comes from, as the driver says at this moment.
#pragma once

#include "driver/cuda_abi.hpp"
#include "shim/hooks/pool_table.hpp"

namespace ration::shim {

/// Pools that are not in the table.
enum class Elsewhere : int {
  kImported,  ///< of another process: nothing is taken from it here
  kHost,      ///< its memory is no device's
  kAnywhere,  ///< of managed memory: from its first use on it counts for the device where that is
};

/// Remembers what a pool is that is not to be in the table, until forget_elsewhere().
void remember_elsewhere(cuda::CUmemoryPool pool, Elsewhere what) noexcept;
/// Returns false where it was not remembered.
bool forget_elsewhere(cuda::CUmemoryPool pool, Elsewhere& what) noexcept;

/// Where an allocation comes from.
struct Source {
  enum class Kind {
    kPool,
    kNoDevice,
    kFull,    ///< the table has no place for it
    kUntold,  ///< there is such a pool, and nobody can say where its memory lies
    kNone,    ///< none is known at this moment: the call is wrong
  } kind = Kind::kNone;
  Pool* pool = nullptr;
  cuda::CUdevice device = -1;  ///< of kFull
};

/// Returns the source of an allocation from that pool, for a request on the stream.
[[nodiscard]] Source source_of(cuda::CUmemoryPool pool, cuda::CUstream stream) noexcept;
/// Returns the source of an allocation on this stream: the pool that is current where the stream is.
[[nodiscard]] Source source_of(cuda::CUstream stream) noexcept;

/// Enters a pool of that device. Null: the table is full.
Pool* add_pool(cuda::CUmemoryPool pool, cuda::CUdevice device) noexcept;

/// Reads an attribute that is a number of bytes, or a switch. False: the driver does not know it, or the pool.
[[nodiscard]] bool read_attribute(cuda::CUmemoryPool pool, cuda::CUmemPool_attribute attribute, Bytes& out) noexcept;

}  // namespace ration::shim
