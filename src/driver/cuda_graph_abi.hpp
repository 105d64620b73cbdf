// The binary interface of the driver's graphs and stream capture, in addition to cuda_abi.hpp and with the same
// promises. Used by the guard, the simulator, the workload and the tests.
#pragma once

#include "driver/cuda_abi.hpp"

namespace ration::cuda {

inline constexpr auto CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = static_cast<CUresult>(900);
inline constexpr auto CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = static_cast<CUresult>(901);
inline constexpr auto CUDA_ERROR_STREAM_CAPTURE_MERGE = static_cast<CUresult>(902);
inline constexpr auto CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = static_cast<CUresult>(903);
inline constexpr auto CUDA_ERROR_STREAM_CAPTURE_UNJOINED = static_cast<CUresult>(904);
inline constexpr auto CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = static_cast<CUresult>(910);

enum CUgraphInstantiate_flags : int {
  CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
  CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
  CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,
  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8,
};
enum CUgraphInstantiateResult : int { CUDA_GRAPH_INSTANTIATE_SUCCESS = 0, CUDA_GRAPH_INSTANTIATE_ERROR = 1 };
enum CUgraphExecUpdateResult : int {
  CU_GRAPH_EXEC_UPDATE_SUCCESS = 0,
  CU_GRAPH_EXEC_UPDATE_ERROR = 1,
  CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 2,
};
enum CUstreamUpdateCaptureDependencies_flags : unsigned {
  CU_STREAM_ADD_CAPTURE_DEPENDENCIES = 0,
  CU_STREAM_SET_CAPTURE_DEPENDENCIES = 1,
};

struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  cuuint64_t flags;
  CUstream hUploadStream;
  CUgraphNode hErrNode_out;
  CUgraphInstantiateResult result_out;
};
struct CUgraphExecUpdateResultInfo {
  CUgraphExecUpdateResult result;
  CUgraphNode errorNode;
  CUgraphNode errorFromNode;
};
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};

struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void** kernelParams;
  void** extra;
};
struct CUDA_KERNEL_NODE_PARAMS_v2 {
  CUDA_KERNEL_NODE_PARAMS launch;
  void* kern;
  CUcontext ctx;
};
struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned int value;
  unsigned int elementSize;
  std::size_t width, height;
};
struct CUDA_HOST_NODE_PARAMS {
  void (*fn)(void*);
  void* userData;
};
/// The parameters of a copy: the bytes of a CUDA_MEMCPY3D, kept unchanged.
struct GraphCopyParams {
  alignas(8) unsigned char bytes[200];
};

/// The parameters of cuGraphAddNode().
struct CUgraphNodeParams {
  CUgraphNodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    struct {
      int flags, reserved;
      CUcontext copyCtx;
      GraphCopyParams copyParams;
    } memcpy;
    CUDA_MEMSET_NODE_PARAMS memset;
    CUDA_HOST_NODE_PARAMS host;
    CUgraph graph;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUdeviceptr free;
  };
  long long reserved2;
};
static_assert(sizeof(CUgraphNodeParams) == 256 && sizeof(CUgraphEdgeData) == 8);

using cuGraphCreate_t = CUresult(CUgraph*, unsigned int);
using cuGraphDestroy_t = CUresult(CUgraph);
using cuGraphClone_t = CUresult(CUgraph*, CUgraph);
using cuGraphAddMemAllocNode_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                                          CUDA_MEM_ALLOC_NODE_PARAMS*);
using cuGraphAddMemFreeNode_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUdeviceptr);
using cuGraphAddEmptyNode_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t);
using cuGraphAddChildGraphNode_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraph);
using cuGraphAddHostNode_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                                      const CUDA_HOST_NODE_PARAMS*);
using cuGraphAddMemsetNode_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                                        const CUDA_MEMSET_NODE_PARAMS*, CUcontext);
using cuGraphAddNode_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraphNodeParams*);
using cuGraphAddNode_v2_t = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, std::size_t,
                                     CUgraphNodeParams*);
using cuGraphGetEdges_t = CUresult(CUgraph, CUgraphNode*, CUgraphNode*, std::size_t*);
using cuGraphGetEdges_v2_t = CUresult(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, std::size_t*);
using cuGraphGetRootNodes_t = CUresult(CUgraph, CUgraphNode*, std::size_t*);
using cuGraphNodeGetDependencies_t = CUresult(CUgraphNode, CUgraphNode*, std::size_t*);
using cuGraphMemFreeNodeGetParams_t = CUresult(CUgraphNode, CUdeviceptr*);
using cuGraphDestroyNode_t = CUresult(CUgraphNode);
using cuGraphExecUpdate_v2_t = CUresult(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*);
using cuDeviceSetGraphMemAttribute_t = CUresult(CUdevice, CUgraphMem_attribute, void*);

using cuStreamBeginCapture_v2_t = CUresult(CUstream, CUstreamCaptureMode);
using cuStreamEndCapture_t = CUresult(CUstream, CUgraph*);
using cuStreamGetCaptureInfo_v2_t = CUresult(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                             const CUgraphNode**, std::size_t*);
using cuThreadExchangeStreamCaptureMode_t = CUresult(CUstreamCaptureMode*);

}  // namespace ration::cuda
