// The place of a stream-ordered pool's memory. Used by the pool hooks when they first see a pool.
#pragma once

#include "driver/cuda_abi.hpp"

namespace ration::guard {

struct PoolOrigin {
  enum class Kind {
    kUnknown,  ///< the driver does not report the place, or does not know the pool
    kDevice,
    kHost,      ///< memory on no device
    kAnywhere,  ///< managed memory without a location, which lies where it is used
  } kind = Kind::kUnknown;
  cuda::CUdevice device = -1;  ///< valid for kDevice
};

[[nodiscard]] PoolOrigin origin_of(const cuda::CUmemPoolProps& properties) noexcept;
/// Asks the driver for the place of the pool's memory. Slow before CUDA 13.2: this then searches the pools of every
/// device and of the host.
[[nodiscard]] PoolOrigin origin_of(cuda::CUmemoryPool pool) noexcept;

}  // namespace ration::guard
