// Streams, events, capture and graphs: the driver's functions under the runtime's names.
#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_graph_abi.hpp"
#include "runtime.hpp"

using namespace ration::cudart;
using namespace ration::cuda;

using Callback = void (*)(Handle, Error, void*);
using HostFunction = void (*)(void*);

// ------------------------------------------------------------------------------------------------- streams, events

CUDART(cudaStreamCreateWithPriority)(Handle* out, unsigned int flags, int priority) {
  return call(DRIVER(cuStreamCreateWithPriority, CUresult(Handle*, unsigned int, int)), out, flags, priority);
}
CUDART(cudaStreamCreateWithFlags)(Handle* out, unsigned int flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
CUDART(cudaStreamCreate)(Handle* out) { return cudaStreamCreateWithPriority(out, 0, 0); }

#define ONE(name, driver_name, A)                     \
  CUDART(name)(A a) {                                 \
    const ReportedCall reported(__func__);            \
    return call(DRIVER(driver_name, CUresult(A)), a); \
  }
#define TWO(name, driver_name, A, B)                        \
  CUDART(name)(A a, B b) {                                  \
    const ReportedCall reported(__func__);                  \
    return call(DRIVER(driver_name, CUresult(A, B)), a, b); \
  }
#define THREE(name, driver_name, A, B, C)                         \
  CUDART(name)(A a, B b, C c) {                                   \
    const ReportedCall reported(__func__);                        \
    return call(DRIVER(driver_name, CUresult(A, B, C)), a, b, c); \
  }
#define FOUR(name, driver_name, A, B, C, D)                             \
  CUDART(name)(A a, B b, C c, D d) {                                    \
    const ReportedCall reported(__func__);                              \
    return call(DRIVER(driver_name, CUresult(A, B, C, D)), a, b, c, d); \
  }

ONE(cudaStreamDestroy, cuStreamDestroy_v2, Handle)
ONE(cudaStreamQuery, cuStreamQuery, Handle)
ONE(cudaStreamSynchronize, cuStreamSynchronize, Handle)
THREE(cudaStreamWaitEvent, cuStreamWaitEvent, Handle, Handle, unsigned int)
TWO(cudaStreamGetPriority, cuStreamGetPriority, Handle, int*)
TWO(cudaStreamGetFlags, cuStreamGetFlags, Handle, unsigned int*)
TWO(cudaStreamGetId, cuStreamGetId, Handle, unsigned long long*)
TWO(cudaStreamGetDevice, cuStreamGetDevice, Handle, int*)
FOUR(cudaStreamAddCallback, cuStreamAddCallback, Handle, Callback, void*, unsigned int)
THREE(cudaLaunchHostFunc, cuLaunchHostFunc, Handle, HostFunction, void*)
#if RATION_CUDART == 13
FOUR(cudaLaunchHostFunc_v2, cuLaunchHostFunc_v2, Handle, HostFunction, void*, unsigned int)
#endif
FOUR(cudaStreamAttachMemAsync, cuStreamAttachMemAsync, Handle, void*, std::size_t, unsigned int)
TWO(cudaEventCreateWithFlags, cuEventCreate, Handle*, unsigned int)
CUDART(cudaEventCreate)(Handle* out) { return cudaEventCreateWithFlags(out, 0); }
ONE(cudaEventDestroy, cuEventDestroy_v2, Handle)
ONE(cudaEventQuery, cuEventQuery, Handle)
ONE(cudaEventSynchronize, cuEventSynchronize, Handle)
TWO(cudaEventRecord, cuEventRecord, Handle, Handle)
THREE(cudaEventRecordWithFlags, cuEventRecordWithFlags, Handle, Handle, unsigned int)
THREE(cudaEventElapsedTime, cuEventElapsedTime_v2, float*, Handle, Handle)
#if RATION_CUDART == 12
THREE(cudaEventElapsedTime_v2, cuEventElapsedTime_v2, float*, Handle, Handle)
#endif

// ------------------------------------------------------------------------------------------------------------ capture

TWO(cudaStreamBeginCapture, cuStreamBeginCapture_v2, Handle, int)
TWO(cudaStreamEndCapture, cuStreamEndCapture, Handle, Handle*)
TWO(cudaStreamIsCapturing, cuStreamIsCapturing, Handle, int*)
ONE(cudaThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, int*)
CUDART(cudaStreamBeginCaptureToGraph)
(Handle stream, Handle graph, const Handle* dependencies, const CUgraphEdgeData* edges, std::size_t count, int mode) {
  return call(DRIVER(cuStreamBeginCaptureToGraph,
                     CUresult(Handle, Handle, const Handle*, const CUgraphEdgeData*, std::size_t, int)),
              stream, graph, dependencies, edges, count, mode);
}

namespace {

using Nodes = const Handle**;

Error capture_info(Handle stream, int* status, unsigned long long* id, Handle* graph, Nodes nodes,
                   const CUgraphEdgeData** edges, std::size_t* count) {
  return call(DRIVER(cuStreamGetCaptureInfo_v3, CUresult(Handle, int*, unsigned long long*, Handle*, Nodes,
                                                         const CUgraphEdgeData**, std::size_t*)),
              stream, status, id, graph, nodes, edges, count);
}
Error update_dependencies(Handle stream, Handle* nodes, const CUgraphEdgeData* edges, std::size_t count,
                          unsigned int flags) {
  return call(DRIVER(cuStreamUpdateCaptureDependencies_v2,
                     CUresult(Handle, Handle*, const CUgraphEdgeData*, std::size_t, unsigned int)),
              stream, nodes, edges, count, flags);
}

}  // namespace

#if RATION_CUDART == 12
CUDART(cudaStreamGetCaptureInfo)(Handle stream, int* status, unsigned long long* id) {
  return capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
CUDART(cudaStreamGetCaptureInfo_v2)
(Handle stream, int* status, unsigned long long* id, Handle* graph, Nodes nodes, std::size_t* count) {
  return capture_info(stream, status, id, graph, nodes, nullptr, count);
}
CUDART(cudaStreamUpdateCaptureDependencies)(Handle stream, Handle* nodes, std::size_t count, unsigned int flags) {
  return update_dependencies(stream, nodes, nullptr, count, flags);
}
#define NEWEST(name, version) name##version
#else
#define NEWEST(name, version) name
#endif
CUDART(NEWEST(cudaStreamGetCaptureInfo, _v3))
(Handle stream, int* status, unsigned long long* id, Handle* graph, Nodes nodes, const CUgraphEdgeData** edges,
 std::size_t* count) {
  return capture_info(stream, status, id, graph, nodes, edges, count);
}
CUDART(NEWEST(cudaStreamUpdateCaptureDependencies, _v2))
(Handle stream, Handle* nodes, const CUgraphEdgeData* edges, std::size_t count, unsigned int flags) {
  return update_dependencies(stream, nodes, edges, count, flags);
}

// ------------------------------------------------------------------------------------------------------------- graphs

TWO(cudaGraphCreate, cuGraphCreate, Handle*, unsigned int)
ONE(cudaGraphDestroy, cuGraphDestroy, Handle)
TWO(cudaGraphClone, cuGraphClone, Handle*, Handle)
ONE(cudaGraphDestroyNode, cuGraphDestroyNode, Handle)
THREE(cudaGraphGetNodes, cuGraphGetNodes, Handle, Handle*, std::size_t*)
THREE(cudaGraphGetRootNodes, cuGraphGetRootNodes, Handle, Handle*, std::size_t*)
TWO(cudaGraphNodeGetType, cuGraphNodeGetType, Handle, int*)
THREE(cudaGraphNodeFindInClone, cuGraphNodeFindInClone, Handle*, Handle, Handle)
TWO(cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, Handle, Handle*)
TWO(cudaGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, Handle, void*)
TWO(cudaGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, Handle, void*)
THREE(cudaGraphInstantiate, cuGraphInstantiateWithFlags, Handle*, Handle, unsigned long long)
THREE(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, Handle*, Handle, unsigned long long)
THREE(cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams, Handle*, Handle, void*)
TWO(cudaGraphLaunch, cuGraphLaunch, Handle, Handle)
TWO(cudaGraphUpload, cuGraphUpload, Handle, Handle)
ONE(cudaGraphExecDestroy, cuGraphExecDestroy, Handle)
THREE(cudaGraphExecUpdate, cuGraphExecUpdate_v2, Handle, Handle, void*)
TWO(cudaGraphExecGetFlags, cuGraphExecGetFlags, Handle, unsigned long long*)

#define NODE(name, driver_name, P)                                                                                 \
  CUDART(name)(Handle * out, Handle graph, const Handle* before, std::size_t count, P parameters) {                \
    return call(DRIVER(driver_name, CUresult(Handle*, Handle, const Handle*, std::size_t, P)), out, graph, before, \
                count, parameters);                                                                                \
  }
NODE(cudaGraphAddHostNode, cuGraphAddHostNode, const CUDA_HOST_NODE_PARAMS*)
NODE(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode, Handle)
NODE(cudaGraphAddEventRecordNode, cuGraphAddEventRecordNode, Handle)
NODE(cudaGraphAddEventWaitNode, cuGraphAddEventWaitNode, Handle)
NODE(cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode, CUDA_MEM_ALLOC_NODE_PARAMS*)
NODE(cudaGraphAddMemFreeNode, cuGraphAddMemFreeNode, void*)
CUDART(cudaGraphAddEmptyNode)(Handle* out, Handle graph, const Handle* before, std::size_t count) {
  return call(DRIVER(cuGraphAddEmptyNode, CUresult(Handle*, Handle, const Handle*, std::size_t)), out, graph, before,
              count);
}
CUDART(cudaGraphAddKernelNode)
(Handle* out, Handle graph, const Handle* before, std::size_t count, const cudaKernelNodeParams* given) {
  if (given == nullptr) return remember(cudaErrorInvalidValue);
  const CUDA_KERNEL_NODE_PARAMS parameters{
      function_of(given->func), given->gridDim.x,  given->gridDim.y,      given->gridDim.z,    given->blockDim.x,
      given->blockDim.y,        given->blockDim.z, given->sharedMemBytes, given->kernelParams, given->extra};
  if (parameters.func == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  return call(DRIVER(cuGraphAddKernelNode,
                     CUresult(Handle*, Handle, const Handle*, std::size_t, const CUDA_KERNEL_NODE_PARAMS*)),
              out, graph, before, count, &parameters);
}
CUDART(cudaGraphAddMemcpyNode1D)
(Handle* out, Handle graph, const Handle* before, std::size_t count, void* to, const void* from, std::size_t size,
 int) {
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = number(from);
  copy.dstDevice = number(to);
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = size;
  copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 1;
  return call(DRIVER(cuGraphAddMemcpyNode,
                     CUresult(Handle*, Handle, const Handle*, std::size_t, const CUDA_MEMCPY3D*, CUcontext)),
              out, graph, before, count, &copy, current_context());
}
CUDART(cudaGraphAddMemsetNode)
(Handle* out, Handle graph, const Handle* before, std::size_t count, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  return call(DRIVER(cuGraphAddMemsetNode,
                     CUresult(Handle*, Handle, const Handle*, std::size_t, const CUDA_MEMSET_NODE_PARAMS*, CUcontext)),
              out, graph, before, count, parameters, current_context());
}
#if RATION_CUDART == 12
THREE(cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies, Handle, Handle*, std::size_t*)
THREE(cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes, Handle, Handle*, std::size_t*)
FOUR(cudaGraphGetEdges, cuGraphGetEdges, Handle, Handle*, Handle*, std::size_t*)
FOUR(cudaGraphAddDependencies, cuGraphAddDependencies, Handle, const Handle*, const Handle*, std::size_t)
#endif
// The functions that take or return the data of edges. The simulated driver keeps no such data, so every edge is an
// ordinary one.
namespace {

Error plain_edges(Error error, const Handle* told, CUgraphEdgeData* edges, const std::size_t* count) {
  for (std::size_t i = 0; error == cudaSuccess && edges != nullptr && told != nullptr && i < *count; ++i) edges[i] = {};
  return error;
}

}  // namespace

CUDART(NEWEST(cudaGraphNodeGetDependencies, _v2))
(Handle node, Handle* out, CUgraphEdgeData* edges, std::size_t* count) {
  const Error error =
      call(DRIVER(cuGraphNodeGetDependencies, CUresult(Handle, Handle*, std::size_t*)), node, out, count);
  return plain_edges(error, out, edges, count);
}
CUDART(NEWEST(cudaGraphNodeGetDependentNodes, _v2))
(Handle node, Handle* out, CUgraphEdgeData* edges, std::size_t* count) {
  const Error error =
      call(DRIVER(cuGraphNodeGetDependentNodes, CUresult(Handle, Handle*, std::size_t*)), node, out, count);
  return plain_edges(error, out, edges, count);
}
CUDART(NEWEST(cudaGraphGetEdges, _v2))
(Handle graph, Handle* from, Handle* to, CUgraphEdgeData* edges, std::size_t* count) {
  const Error error =
      call(DRIVER(cuGraphGetEdges, CUresult(Handle, Handle*, Handle*, std::size_t*)), graph, from, to, count);
  return plain_edges(error, from, edges, count);
}
CUDART(NEWEST(cudaGraphAddDependencies, _v2))
(Handle graph, const Handle* from, const Handle* to, const CUgraphEdgeData*, std::size_t count) {
  return call(DRIVER(cuGraphAddDependencies, CUresult(Handle, const Handle*, const Handle*, std::size_t)), graph, from,
              to, count);
}

// The user objects, which graphs keep alive. Each counts the references to an object of the program. They exist only in
// the runtime and not in the driver.
namespace {

struct UserObject {
  void* object;
  void (*destroy)(void*);
  unsigned int references;
};

}  // namespace

CUDART(cudaUserObjectCreate)
(Handle* out, void* object, void (*destroy)(void*), unsigned int references, unsigned int) {
  if (out == nullptr || destroy == nullptr || references == 0) return remember(cudaErrorInvalidValue);
  *out = new UserObject{object, destroy, references};
  return cudaSuccess;
}
CUDART(cudaUserObjectRetain)(Handle handle, unsigned int count) {
  if (handle == nullptr) return remember(cudaErrorInvalidValue);
  static_cast<UserObject*>(handle)->references += count;
  return cudaSuccess;
}
CUDART(cudaUserObjectRelease)(Handle handle, unsigned int count) {
  auto* object = static_cast<UserObject*>(handle);
  if (object == nullptr || count > object->references) return remember(cudaErrorInvalidValue);
  object->references -= count;
  if (object->references == 0) {
    object->destroy(object->object);
    delete object;
  }
  return cudaSuccess;
}
CUDART(cudaGraphRetainUserObject)(Handle graph, Handle handle, unsigned int count, unsigned int flags) {
  constexpr unsigned int kMove = 1;  // the graph takes over the caller's references
  if (graph == nullptr || handle == nullptr || count == 0) return remember(cudaErrorInvalidValue);
  // A graph's references last until the process ends, since graphs here do not report their end.
  return flags == kMove ? cudaSuccess : cudaUserObjectRetain(handle, count);
}
CUDART(cudaGraphReleaseUserObject)(Handle graph, Handle handle, unsigned int count) {
  return graph == nullptr ? remember(cudaErrorInvalidValue) : cudaUserObjectRelease(handle, count);
}
