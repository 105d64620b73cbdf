// The binary interface of NVIDIA's runtime library (libcudart), as far as the simulated one has it: our own
// declarations of its layouts, for the major version RATION_CUDART (12 or 13). Handles that are only passed on are
// void*. tests/abi compares the layouts with NVIDIA's header. Names are the runtime's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver/cuda_abi.hpp"

#ifndef RATION_CUDART
#error "RATION_CUDART is the major version: 12 or 13"
#endif

namespace ration::cudart {

/// A cudaError_t. Most numbers equal the driver's.
using Error = int;
inline constexpr Error cudaSuccess = 0;
inline constexpr Error cudaErrorInvalidValue = 1;
inline constexpr Error cudaErrorMemoryAllocation = 2;
inline constexpr Error cudaErrorInvalidConfiguration = 9;
inline constexpr Error cudaErrorInvalidSymbol = 13;
inline constexpr Error cudaErrorInvalidMemcpyDirection = 21;
inline constexpr Error cudaErrorInsufficientDriver = 35;
inline constexpr Error cudaErrorMissingConfiguration = 52;
inline constexpr Error cudaErrorInvalidDeviceFunction = 98;
inline constexpr Error cudaErrorNoDevice = 100;
inline constexpr Error cudaErrorInvalidDevice = 101;
inline constexpr Error cudaErrorPeerAccessAlreadyEnabled = 704;
inline constexpr Error cudaErrorNotSupported = 801;

using Handle = void*;  // a stream, an event, a graph, a node, a pool, a kernel, a library, …

struct dim3 {
  unsigned int x, y, z;
};

enum cudaMemcpyKind : int {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaMemoryType : int {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3,
};

struct cudaDeviceProp {
  char name[256];
  cuda::CUuuid uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  std::size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
#if RATION_CUDART == 12
  int clockRate;
#endif
  std::size_t totalConstMem;
  int major;
  int minor;
  std::size_t textureAlignment;
  std::size_t texturePitchAlignment;
#if RATION_CUDART == 12
  int deviceOverlap;
#endif
  int multiProcessorCount;
#if RATION_CUDART == 12
  int kernelExecTimeoutEnabled;
#endif
  int integrated;
  int canMapHostMemory;
#if RATION_CUDART == 12
  int computeMode;
#endif
  int maxTexture1D;
  int maxTexture1DMipmap;
#if RATION_CUDART == 12
  int maxTexture1DLinear;
#endif
  int maxTexture2D[2];
  int maxTexture2DMipmap[2];
  int maxTexture2DLinear[3];
  int maxTexture2DGather[2];
  int maxTexture3D[3];
  int maxTexture3DAlt[3];
  int maxTextureCubemap;
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2];
  int maxSurface1D;
  int maxSurface2D[2];
  int maxSurface3D[3];
  int maxSurface1DLayered[2];
  int maxSurface2DLayered[3];
  int maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  std::size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
#if RATION_CUDART == 12
  int memoryClockRate;
#endif
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  std::size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
#if RATION_CUDART == 12
  int singleToDoublePrecisionPerfRatio;
#endif
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
#if RATION_CUDART == 12
  int cooperativeMultiDeviceLaunch;
#endif
  std::size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  std::size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
#if RATION_CUDART == 12
  int reserved[63];
#else
  int deviceNumaConfig;
  int deviceNumaId;
  int mpsEnabled;
  int hostNumaId;
  unsigned int gpuPciDeviceID;
  unsigned int gpuPciSubsystemID;
  int hostNumaMultinodeIpcSupported;
  int reserved[56];
#endif
};

struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
#if RATION_CUDART == 13
  long reserved[8];
#endif
};

struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  std::size_t constSizeBytes;
  std::size_t localSizeBytes;
  int maxThreadsPerBlock;
  int numRegs;
  int ptxVersion;
  int binaryVersion;
  int cacheModeCA;
  int maxDynamicSharedSizeBytes;
  int preferredShmemCarveout;
  int clusterDimMustBeSet;
  int requiredClusterWidth;
  int requiredClusterHeight;
  int requiredClusterDepth;
  int clusterSchedulingPolicyPreference;
  int nonPortableClusterSizeAllowed;
  int reserved[16];
};

struct cudaExtent {
  std::size_t width, height, depth;
};
struct cudaPos {
  std::size_t x, y, z;
};
struct cudaPitchedPtr {
  void* ptr;
  std::size_t pitch, xsize, ysize;
};
struct cudaChannelFormatDesc {
  int x, y, z, w, f;
};
struct cudaMemcpy3DParms {
  cuda::CUarray srcArray;
  cudaPos srcPos;
  cudaPitchedPtr srcPtr;
  cuda::CUarray dstArray;
  cudaPos dstPos;
  cudaPitchedPtr dstPtr;
  cudaExtent extent;
  cudaMemcpyKind kind;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  Handle stream;
  void* attrs;
  unsigned int numAttrs;
};
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim;
  dim3 blockDim;
  unsigned int sharedMemBytes;
  void** kernelParams;
  void** extra;
};
/// A handle for sharing memory or an event.
struct cudaIpcHandle {
  char reserved[64];
};

}  // namespace ration::cudart
