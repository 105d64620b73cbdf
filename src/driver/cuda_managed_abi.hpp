// The binary interface of managed memory, for advice and for moving it between devices and the host, in declarations of
// our own with NVIDIA's layouts.
#pragma once

#include "driver/cuda_abi.hpp"

namespace ration::cuda {

enum CUmem_advise : int {
  CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
  CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
  CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
  CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
  CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
  CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6,
};

/// The number that stands for the host where a device is expected.
inline constexpr CUdevice CU_DEVICE_CPU = -1;

using cuMemAdvise_t = CUresult(CUdeviceptr, std::size_t, CUmem_advise, CUdevice);
using cuMemAdvise_v2_t = CUresult(CUdeviceptr, std::size_t, CUmem_advise, CUmemLocation);
using cuMemRangeGetAttribute_t = CUresult(void*, std::size_t, int, CUdeviceptr, std::size_t);
using cuMemPrefetchAsync_t = CUresult(CUdeviceptr, std::size_t, CUdevice, CUstream);
using cuMemPrefetchAsync_v2_t = CUresult(CUdeviceptr, std::size_t, CUmemLocation, unsigned int, CUstream);
// Since CUDA 13.0. A location applies to the ranges from its index up to the next location's index.
using cuMemPrefetchBatchAsync_t = CUresult(CUdeviceptr*, std::size_t*, std::size_t, CUmemLocation*, std::size_t*,
                                           std::size_t, unsigned long long, CUstream);
using cuMemDiscardAndPrefetchBatchAsync_t = cuMemPrefetchBatchAsync_t;
using cuMemDiscardBatchAsync_t = CUresult(CUdeviceptr*, std::size_t*, std::size_t, unsigned long long, CUstream);

}  // namespace ration::cuda
