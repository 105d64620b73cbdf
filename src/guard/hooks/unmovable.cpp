// Hooks of calls that take no memory but give a program memory that a checkpoint might not move ("does not support UVM
// or IPC memory", README of NVIDIA/cuda-checkpoint). The guard records such a call before it calls the driver, so that
// a daemon that locks the program afterwards sees the record.
#include "driver/cuda_share_abi.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"

using namespace ration::guard;
using namespace ration::cuda;

#define RATION_NOTED(name, what, parameters, arguments) \
  RATION_HOOK CUresult name parameters {                \
    note(Unmovable::what);                              \
    return real<name##_t>(Symbol::name) arguments;      \
  }
RATION_NOTED(cuIpcGetEventHandle, kShared, (CUipcEventHandle * out, CUevent event), (out, event))
RATION_NOTED(cuIpcOpenEventHandle, kShared, (CUevent * out, CUipcEventHandle handle), (out, handle))
RATION_NOTED(cuImportExternalMemory, kShared,
             (CUexternalMemory * out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description), (out, description))
RATION_NOTED(cuMemGetHandleForAddressRange, kShared,
             (void* out, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type, unsigned long long flags),
             (out, address, size, type, flags))
RATION_NOTED(cuMulticastCreate, kShared, (CUmemGenericAllocationHandle * out, const CUmulticastObjectProp* properties),
             (out, properties))
RATION_NOTED(cuMemPoolExportToShareableHandle, kShared,
             (void* out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
             (out, pool, type, flags))
RATION_NOTED(cuLibraryGetManaged, kManaged, (CUdeviceptr * out, std::size_t* size, CUlibrary library, const char* name),
             (out, size, library, name))
#undef RATION_NOTED

// Defines a hook that records a pool of managed memory. The hooked call can make such a pool since CUDA 13.0.
#define RATION_POOL_OF_TYPE(name)                                                                   \
  RATION_HOOK CUresult name(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) { \
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) note(Unmovable::kManaged);                          \
    return real<name##_t>(Symbol::name)(out, location, type);                                       \
  }
RATION_POOL_OF_TYPE(cuMemGetDefaultMemPool)
RATION_POOL_OF_TYPE(cuMemGetMemPool)
#undef RATION_POOL_OF_TYPE
