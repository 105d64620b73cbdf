// The binary interface of NVIDIA's driver library, as far as ration uses it, in declarations of our own, so that ration
// can be built without the CUDA toolkit. Used by the guard, the simulator, the workload and the tests. Promises: values
// and layouts equal those of the driver (tests/abi compares them with a real cuda.h); only types are declared, no
// symbol. Names are the driver's own, so that its manual can be read beside this code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ration::cuda {

// ------------------------------------------------------------------------------------------------------- scalars

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUdeviceptr_v1 = unsigned int;
using cuuint64_t = std::uint64_t;
using CUmemGenericAllocationHandle = unsigned long long;

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUarray_st;
struct CUmipmappedArray_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUmemPoolHandle_st;
using CUcontext = CUctx_st*;
using CUmodule = CUmod_st*;
struct CUlib_st;
using CUlibrary = CUlib_st*;
using CUfunction = CUfunc_st*;
using CUstream = CUstream_st*;
using CUevent = CUevent_st*;
using CUarray = CUarray_st*;
using CUmipmappedArray = CUmipmappedArray_st*;
using CUgraph = CUgraph_st*;
using CUgraphNode = CUgraphNode_st*;
using CUgraphExec = CUgraphExec_st*;
using CUmemoryPool = CUmemPoolHandle_st*;

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_UNMAP_FAILED = 206,
  CUDA_ERROR_OPERATING_SYSTEM = 304,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_UNKNOWN = 999,
};

struct CUuuid {
  char bytes[16];
};

// -------------------------------------------------------------------------------------------------- physical memory

enum CUmemLocationType : int {
  CU_MEM_LOCATION_TYPE_INVALID = 0,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_LOCATION_TYPE_HOST = 2,
  CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
  CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
};
enum CUmemAllocationType : int {
  CU_MEM_ALLOCATION_TYPE_INVALID = 0,
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_ALLOCATION_TYPE_MANAGED = 2,  // since CUDA 13.0
};
enum CUmemAllocationHandleType : int {
  CU_MEM_HANDLE_TYPE_NONE = 0,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
  CU_MEM_HANDLE_TYPE_FABRIC = 8,
};
enum CUmemAllocationGranularity_flags : int {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
};
enum CUmemAccess_flags : int {
  CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
  CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
};

struct CUmemLocation {
  CUmemLocationType type;
  int id;
};

/// Returns true for memory of the host, which takes nothing on a device.
constexpr bool is_of_host(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};

struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};

struct CUmemPoolProps {
  CUmemAllocationType allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

enum CUmemPool_attribute : int {
  CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
  CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
  CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
  CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
  CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
  CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
  CU_MEMPOOL_ATTR_LOCATION_ID = 11,  // since CUDA 13.2, like the next value
  CU_MEMPOOL_ATTR_LOCATION_TYPE = 12,
};

// ------------------------------------------------------------------------------------------------------------ arrays

enum CUarray_format : int {
  CU_AD_FORMAT_UNSIGNED_INT8 = 0x01,
  CU_AD_FORMAT_UNSIGNED_INT16 = 0x02,
  CU_AD_FORMAT_UNSIGNED_INT32 = 0x03,
  CU_AD_FORMAT_SIGNED_INT8 = 0x08,
  CU_AD_FORMAT_SIGNED_INT16 = 0x09,
  CU_AD_FORMAT_SIGNED_INT32 = 0x0a,
  CU_AD_FORMAT_HALF = 0x10,
  CU_AD_FORMAT_FLOAT = 0x20,
};

struct CUDA_ARRAY_DESCRIPTOR {
  std::size_t Width;
  std::size_t Height;
  CUarray_format Format;
  unsigned int NumChannels;
};
struct CUDA_ARRAY_DESCRIPTOR_v1 {
  unsigned int Width;
  unsigned int Height;
  CUarray_format Format;
  unsigned int NumChannels;
};
struct CUDA_ARRAY3D_DESCRIPTOR {
  std::size_t Width;
  std::size_t Height;
  std::size_t Depth;
  CUarray_format Format;
  unsigned int NumChannels;
  unsigned int Flags;
};
struct CUDA_ARRAY3D_DESCRIPTOR_v1 {
  unsigned int Width;
  unsigned int Height;
  unsigned int Depth;
  CUarray_format Format;
  unsigned int NumChannels;
  unsigned int Flags;
};

// ------------------------------------------------------------------------------------------------------------ graphs

enum CUgraphNodeType : int {
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2,
  CU_GRAPH_NODE_TYPE_HOST = 3,
  CU_GRAPH_NODE_TYPE_GRAPH = 4,
  CU_GRAPH_NODE_TYPE_EMPTY = 5,
  CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
  CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
  CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
  CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
};
enum CUgraphMem_attribute : int {
  CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0,
  CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
  CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
  CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3,
};
enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};
enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

struct CUDA_MEM_ALLOC_NODE_PARAMS {
  CUmemPoolProps poolProps;
  const CUmemAccessDesc* accessDescs;
  std::size_t accessDescCount;
  std::size_t bytesize;
  CUdeviceptr dptr;
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS;  // cuda_graph_abi.hpp
struct CUexecAffinityParam;
struct CUctxCreateParams;

// --------------------------------------------------------------------------------------- finding functions, attributes

enum CUdriverProcAddress_flags : int {
  CU_GET_PROC_ADDRESS_DEFAULT = 0,
  CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
};
enum CUdriverProcAddressQueryResult : int {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
};
enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
};
struct CUipcMemHandle {
  char reserved[64];
};

// ----------------------------------------------------------------------------------------------------- function types

using cuInit_t = CUresult(unsigned int);
using cuDriverGetVersion_t = CUresult(int*);
using cuGetErrorName_t = CUresult(CUresult, const char**);
using cuGetErrorString_t = CUresult(CUresult, const char**);
using cuGetProcAddress_t = CUresult(const char*, void**, int, cuuint64_t);
using cuGetProcAddress_v2_t = CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

using cuDeviceGet_t = CUresult(CUdevice*, int);
using cuDeviceGetCount_t = CUresult(int*);
using cuDeviceGetName_t = CUresult(char*, int, CUdevice);
using cuDeviceGetUuid_t = CUresult(CUuuid*, CUdevice);
using cuDeviceGetUuid_v2_t = cuDeviceGetUuid_t;
using cuDeviceGetAttribute_t = CUresult(int*, CUdevice_attribute, CUdevice);
using cuDeviceGetPCIBusId_t = CUresult(char*, int, CUdevice);
using cuDeviceTotalMem_t = CUresult(unsigned int*, CUdevice);
using cuDeviceTotalMem_v2_t = CUresult(std::size_t*, CUdevice);
using cuDeviceGetMemPool_t = CUresult(CUmemoryPool*, CUdevice);
using cuDeviceSetMemPool_t = CUresult(CUdevice, CUmemoryPool);
using cuMemSetMemPool_t = CUresult(CUmemLocation*, CUmemAllocationType, CUmemoryPool);
using cuDeviceGetDefaultMemPool_t = CUresult(CUmemoryPool*, CUdevice);
using cuDeviceGetGraphMemAttribute_t = CUresult(CUdevice, CUgraphMem_attribute, void*);
using cuDeviceGraphMemTrim_t = CUresult(CUdevice);

using cuDevicePrimaryCtxRetain_t = CUresult(CUcontext*, CUdevice);
using cuDevicePrimaryCtxRelease_v2_t = CUresult(CUdevice);
using cuDevicePrimaryCtxReset_v2_t = CUresult(CUdevice);
using cuDevicePrimaryCtxGetState_t = CUresult(CUdevice, unsigned int*, int*);
using cuDevicePrimaryCtxSetFlags_v2_t = CUresult(CUdevice, unsigned int);
using cuCtxCreate_v2_t = CUresult(CUcontext*, unsigned int, CUdevice);
using cuCtxCreate_v3_t = CUresult(CUcontext*, CUexecAffinityParam*, int, unsigned int, CUdevice);
using cuCtxCreate_v4_t = CUresult(CUcontext*, CUctxCreateParams*, unsigned int, CUdevice);
using cuCtxDestroy_v2_t = CUresult(CUcontext);
using cuCtxAttach_t = CUresult(CUcontext*, unsigned int);
using cuCtxPushCurrent_v2_t = CUresult(CUcontext);
using cuCtxPopCurrent_v2_t = CUresult(CUcontext*);
using cuCtxSetCurrent_t = CUresult(CUcontext);
using cuCtxGetCurrent_t = CUresult(CUcontext*);
using cuCtxGetDevice_t = CUresult(CUdevice*);
using cuCtxSynchronize_t = CUresult();
using cuCtxSynchronize_v2_t = CUresult(CUcontext);

using cuMemGetInfo_t = CUresult(unsigned int*, unsigned int*);
using cuMemGetInfo_v2_t = CUresult(std::size_t*, std::size_t*);
using cuMemAlloc_t = CUresult(CUdeviceptr_v1*, unsigned int);
using cuMemAlloc_v2_t = CUresult(CUdeviceptr*, std::size_t);
using cuMemAllocPitch_t = CUresult(CUdeviceptr_v1*, unsigned int*, unsigned int, unsigned int, unsigned int);
using cuMemAllocPitch_v2_t = CUresult(CUdeviceptr*, std::size_t*, std::size_t, std::size_t, unsigned int);
using cuMemAllocManaged_t = CUresult(CUdeviceptr*, std::size_t, unsigned int);
using cuMemFree_t = CUresult(CUdeviceptr_v1);
using cuMemFree_v2_t = CUresult(CUdeviceptr);
using cuMemGetAddressRange_v2_t = CUresult(CUdeviceptr*, std::size_t*, CUdeviceptr);
using cuMemHostAlloc_t = CUresult(void**, std::size_t, unsigned int);
using cuMemAllocHost_t = CUresult(void**, unsigned int);
using cuMemAllocHost_v2_t = CUresult(void**, std::size_t);
using cuMemFreeHost_t = CUresult(void*);
/// The flag for registering another device's memory instead of the host's.
inline constexpr unsigned CU_MEMHOSTREGISTER_IOMEMORY = 4;
using cuMemHostRegister_v2_t = CUresult(void*, std::size_t, unsigned int);
using cuMemHostUnregister_t = CUresult(void*);
using cuMemHostGetFlags_t = CUresult(unsigned int*, void*);
using cuIpcGetMemHandle_t = CUresult(CUipcMemHandle*, CUdeviceptr);
using cuIpcOpenMemHandle_v2_t = CUresult(CUdeviceptr*, CUipcMemHandle, unsigned int);
using cuIpcCloseMemHandle_t = CUresult(CUdeviceptr);

using cuMemcpyHtoD_v2_t = CUresult(CUdeviceptr, const void*, std::size_t);
using cuMemcpyDtoH_v2_t = CUresult(void*, CUdeviceptr, std::size_t);
using cuMemcpyDtoD_v2_t = CUresult(CUdeviceptr, CUdeviceptr, std::size_t);
using cuMemcpyHtoDAsync_v2_t = CUresult(CUdeviceptr, const void*, std::size_t, CUstream);
using cuMemcpyDtoHAsync_v2_t = CUresult(void*, CUdeviceptr, std::size_t, CUstream);
using cuMemcpyDtoDAsync_v2_t = CUresult(CUdeviceptr, CUdeviceptr, std::size_t, CUstream);
using cuMemcpy_t = CUresult(CUdeviceptr, CUdeviceptr, std::size_t);
using cuMemsetD8_v2_t = CUresult(CUdeviceptr, unsigned char, std::size_t);
using cuMemsetD32_v2_t = CUresult(CUdeviceptr, unsigned int, std::size_t);
using cuMemsetD8Async_t = CUresult(CUdeviceptr, unsigned char, std::size_t, CUstream);

using cuMemAllocAsync_t = CUresult(CUdeviceptr*, std::size_t, CUstream);
using cuMemAllocFromPoolAsync_t = CUresult(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream);
using cuMemFreeAsync_t = CUresult(CUdeviceptr, CUstream);
using cuMemPoolCreate_t = CUresult(CUmemoryPool*, const CUmemPoolProps*);
using cuMemPoolDestroy_t = CUresult(CUmemoryPool);
using cuMemPoolTrimTo_t = CUresult(CUmemoryPool, std::size_t);
using cuMemPoolSetAttribute_t = CUresult(CUmemoryPool, CUmemPool_attribute, void*);
using cuMemPoolGetAccess_t = CUresult(CUmemAccess_flags*, CUmemoryPool, CUmemLocation*);
using cuMemPoolGetAttribute_t = CUresult(CUmemoryPool, CUmemPool_attribute, void*);

using cuMemGetAllocationGranularity_t = CUresult(std::size_t*, const CUmemAllocationProp*,
                                                 CUmemAllocationGranularity_flags);
using cuMemCreate_t = CUresult(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                               unsigned long long);
using cuMemRelease_t = CUresult(CUmemGenericAllocationHandle);
using cuMemAddressReserve_t = CUresult(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, unsigned long long);
using cuMemAddressFree_t = CUresult(CUdeviceptr, std::size_t);
using cuMemMap_t = CUresult(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long);
using cuMemUnmap_t = CUresult(CUdeviceptr, std::size_t);
using cuMemSetAccess_t = CUresult(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t);
using cuMemGetAllocationPropertiesFromHandle_t = CUresult(CUmemAllocationProp*, CUmemGenericAllocationHandle);
using cuMemRetainAllocationHandle_t = CUresult(CUmemGenericAllocationHandle*, void*);
using cuMemExportToShareableHandle_t = CUresult(void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                                                unsigned long long);
using cuMemImportFromShareableHandle_t = CUresult(CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType);

using cuArrayCreate_t = CUresult(CUarray*, const CUDA_ARRAY_DESCRIPTOR_v1*);
using cuArrayCreate_v2_t = CUresult(CUarray*, const CUDA_ARRAY_DESCRIPTOR*);
using cuArray3DCreate_t = CUresult(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR_v1*);
using cuArray3DCreate_v2_t = CUresult(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*);
using cuArrayDestroy_t = CUresult(CUarray);
using cuMipmappedArrayCreate_t = CUresult(CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned int);
using cuMipmappedArrayDestroy_t = CUresult(CUmipmappedArray);

using cuStreamCreate_t = CUresult(CUstream*, unsigned int);
using cuStreamDestroy_v2_t = CUresult(CUstream);
using cuStreamSynchronize_t = CUresult(CUstream);
using cuStreamQuery_t = CUresult(CUstream);
using cuStreamGetDevice_t = CUresult(CUstream, CUdevice*);
using cuStreamGetCtx_t = CUresult(CUstream, CUcontext*);
using cuStreamIsCapturing_t = CUresult(CUstream, CUstreamCaptureStatus*);
using cuEventCreate_t = CUresult(CUevent*, unsigned int);
using cuEventRecord_t = CUresult(CUevent, CUstream);
using cuStreamWaitEvent_t = CUresult(CUstream, CUevent, unsigned int);
using cuCtxGetStreamPriorityRange_t = CUresult(int*, int*);
using cuEventSynchronize_t = CUresult(CUevent);
using cuEventQuery_t = CUresult(CUevent);
using cuEventDestroy_v2_t = CUresult(CUevent);

using cuModuleLoad_t = CUresult(CUmodule*, const char*);
using cuModuleLoadData_t = CUresult(CUmodule*, const void*);
using cuModuleLoadFatBinary_t = CUresult(CUmodule*, const void*);
using cuModuleLoadDataEx_t = CUresult(CUmodule*, const void*, unsigned int, int*, void**);
using cuLibraryLoadData_t = CUresult(CUlibrary*, const void*, int*, void**, unsigned int, int*, void**, unsigned int);
using cuLibraryLoadFromFile_t = CUresult(CUlibrary*, const char*, int*, void**, unsigned int, int*, void**,
                                         unsigned int);
using cuLibraryUnload_t = CUresult(CUlibrary);
using cuModuleUnload_t = CUresult(CUmodule);
using cuModuleGetFunction_t = CUresult(CUfunction*, CUmodule, const char*);
using cuLaunchKernel_t = CUresult(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                  unsigned int, unsigned int, CUstream, void**, void**);

using cuGraphGetNodes_t = CUresult(CUgraph, CUgraphNode*, std::size_t*);
using cuGraphNodeGetType_t = CUresult(CUgraphNode, CUgraphNodeType*);
using cuGraphMemAllocNodeGetParams_t = CUresult(CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS*);
using cuGraphChildGraphNodeGetGraph_t = CUresult(CUgraphNode, CUgraph*);
using cuGraphInstantiate_t = CUresult(CUgraphExec*, CUgraph, CUgraphNode*, char*, std::size_t);
using cuGraphInstantiateWithFlags_t = CUresult(CUgraphExec*, CUgraph, unsigned long long);
using cuGraphInstantiateWithParams_t = CUresult(CUgraphExec*, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS*);
using cuGraphLaunch_t = CUresult(CUgraphExec, CUstream);
using cuGraphUpload_t = CUresult(CUgraphExec, CUstream);
using cuGraphExecDestroy_t = CUresult(CUgraphExec);

}  // namespace ration::cuda
