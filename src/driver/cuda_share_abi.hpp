// The binary interface for memory shared between processes, and for checkpoints, in addition to cuda_abi.hpp and with
// the same promises. Used by the guard, the simulator, the workload and the tests.
#pragma once

#include "driver/cuda_abi.hpp"

namespace ration::cuda {

struct CUmemPoolPtrExportData {
  unsigned char reserved[64];
};

struct CUipcEventHandle {
  unsigned char reserved[64];
};
struct CUextMemory_st;
using CUexternalMemory = CUextMemory_st*;
struct CUlib_st;
using CUlibrary = CUlib_st*;
struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
struct CUmulticastObjectProp;
enum CUmemRangeHandleType : int {};

using cuIpcGetEventHandle_t = CUresult(CUipcEventHandle*, CUevent);
using cuIpcOpenEventHandle_t = CUresult(CUevent*, CUipcEventHandle);
using cuImportExternalMemory_t = CUresult(CUexternalMemory*, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC*);
using cuMemGetHandleForAddressRange_t = CUresult(void*, CUdeviceptr, std::size_t, CUmemRangeHandleType,
                                                 unsigned long long);
using cuMulticastCreate_t = CUresult(CUmemGenericAllocationHandle*, const CUmulticastObjectProp*);
using cuLibraryGetManaged_t = CUresult(CUdeviceptr*, std::size_t*, CUlibrary, const char*);
using cuMemGetDefaultMemPool_t = CUresult(CUmemoryPool*, CUmemLocation*, CUmemAllocationType);
using cuMemGetMemPool_t = CUresult(CUmemoryPool*, CUmemLocation*, CUmemAllocationType);

using cuMemPoolExportToShareableHandle_t = CUresult(void*, CUmemoryPool, CUmemAllocationHandleType, unsigned long long);
using cuMemPoolImportFromShareableHandle_t = CUresult(CUmemoryPool*, void*, CUmemAllocationHandleType,
                                                      unsigned long long);
using cuMemPoolExportPointer_t = CUresult(CUmemPoolPtrExportData*, CUdeviceptr);
using cuMemPoolImportPointer_t = CUresult(CUdeviceptr*, CUmemoryPool, CUmemPoolPtrExportData*);

using cuMulticastBindMem_t = CUresult(CUmemGenericAllocationHandle, std::size_t, CUmemGenericAllocationHandle,
                                      std::size_t, std::size_t, unsigned long long);
using cuMulticastBindAddr_t = CUresult(CUmemGenericAllocationHandle, std::size_t, CUdeviceptr, std::size_t,
                                       unsigned long long);
using cuMulticastBindMem_v2_t = CUresult(CUmemGenericAllocationHandle, CUdevice, std::size_t,
                                         CUmemGenericAllocationHandle, std::size_t, std::size_t, unsigned long long);
using cuMulticastBindAddr_v2_t = CUresult(CUmemGenericAllocationHandle, CUdevice, std::size_t, CUdeviceptr, std::size_t,
                                          unsigned long long);
using cuMulticastUnbind_t = CUresult(CUmemGenericAllocationHandle, CUdevice, std::size_t, std::size_t);

enum CUprocessState : int {
  CU_PROCESS_STATE_RUNNING = 0,
  CU_PROCESS_STATE_LOCKED = 1,
  CU_PROCESS_STATE_CHECKPOINTED = 2,
  CU_PROCESS_STATE_FAILED = 3,
};
struct CUcheckpointLockArgs {
  unsigned int timeoutMs;
  unsigned int reserved0;
  cuuint64_t reserved1[7];
};
struct CUcheckpointCheckpointArgs {
  cuuint64_t reserved[8];
};
struct CUcheckpointRestoreArgs;  // may rename the process's devices; the simulator ignores it
struct CUcheckpointUnlockArgs {
  cuuint64_t reserved[8];
};

using cuCheckpointProcessGetState_t = CUresult(int, CUprocessState*);
using cuCheckpointProcessGetRestoreThreadId_t = CUresult(int, int*);
using cuCheckpointProcessLock_t = CUresult(int, CUcheckpointLockArgs*);
using cuCheckpointProcessCheckpoint_t = CUresult(int, CUcheckpointCheckpointArgs*);
using cuCheckpointProcessRestore_t = CUresult(int, CUcheckpointRestoreArgs*);
using cuCheckpointProcessUnlock_t = CUresult(int, CUcheckpointUnlockArgs*);

}  // namespace ration::cuda
