// The settings of ration's pool in the environment: variables of TensorFlow, XLA and PyTorch under their names. Used by
// runtime.cpp. TensorFlow's and XLA's variables that limit memory are never ignored: an invalid value is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace ration::runtime {

struct Environment {
  std::optional<bool> force_growth;              ///< TF_FORCE_GPU_ALLOW_GROWTH, XLA_PYTHON_CLIENT_PREALLOCATE
  std::optional<std::uint64_t> reserve_mib;      ///< TF_DEVICE_MIN_SYS_MEMORY_IN_MB
  std::optional<double> fraction;                ///< XLA_PYTHON_CLIENT_MEM_FRACTION, XLA_CLIENT_MEM_FRACTION, PyTorch's
  std::optional<Bytes> device_limit;             ///< TF_PER_DEVICE_MEMORY_LIMIT_MB, for each GPU
  bool async = false;                            ///< TF_GPU_ALLOCATOR=cuda_malloc_async, XLA_PYTHON_CLIENT_ALLOCATOR
  std::optional<std::uint64_t> preallocate_mib;  ///< TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC, with `async` only
  std::optional<Bytes> min_block;                ///< RATION_MIN_BLOCK=1MiB, to which smaller requests are rounded up
  bool direct = false;                           ///< XLA_PYTHON_CLIENT_ALLOCATOR=platform
  bool moves = true;                             ///< TF_ENABLE_GPU_GARBAGE_COLLECTION
  double reclaim_above = 1;                      ///< PyTorch's garbage_collection_threshold

  /// Reads the variables. Throws InvalidArgumentError if a variable that limits memory has an invalid value, since the
  /// pool could take more than intended without that limit.
  [[nodiscard]] static Environment read();
  /// Returns a sentence for each variable whose value is invalid or contradicts another variable. Each sentence says
  /// what is wrong, and what holds instead.
  [[nodiscard]] static std::vector<std::string> problems();

 private:
  void read_pytorch();
};

}  // namespace ration::runtime
