// Where the memory of a stream-ordered pool lies, as the driver says. Used by the pool hooks the first time that they
// see a pool.
#pragma once

#include "driver/cuda_abi.hpp"

namespace ration::shim {

struct PoolOrigin {
  enum class Kind {
    kUnknown,  ///< the driver does not say, or does not know the pool
    kDevice,
    kHost,      ///< no device has any of it
    kAnywhere,  ///< managed memory of no place: where it is taken
  } kind = Kind::kUnknown;
  cuda::CUdevice device = -1;  ///< of kDevice
};

[[nodiscard]] PoolOrigin origin_of(const cuda::CUmemPoolProps& properties) noexcept;
/// Asks the driver. Cold: before CUDA 13.2 the pool is looked for among those of every device and of the host.
[[nodiscard]] PoolOrigin origin_of(cuda::CUmemoryPool pool) noexcept;

}  // namespace ration::shim
