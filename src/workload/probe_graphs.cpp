// Ways of taking memory through graphs: made by hand, captured, uploaded, launched again.
#include "driver/cuda_graph_abi.hpp"
#include "workload/driver_calls.hpp"
#include "workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

struct Launched {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUdeviceptr pointer = 0;  // left allocated by the launch; 0 = none
};
std::vector<Launched> launched;
CUstream stream = nullptr;

CUresult add_allocation(CUgraph graph, const CUgraphNode* after, std::size_t size, CUgraphNode& node,
                        CUdeviceptr& pointer) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = size;
  const CUresult result = DRIVER(cuGraphAddMemAllocNode)(&node, graph, after, after != nullptr ? 1 : 0, &parameters);
  pointer = parameters.dptr;
  return result;
}

void forget(const Launched& one) {
  DRIVER(cuGraphExecDestroy)(one.executable);
  DRIVER(cuGraphDestroy)(one.graph);
}

/// Instantiates and runs what `build` makes; keeps it if that succeeds.
template <typename Build, typename Run>
CUresult make(unsigned long long flags, Build&& build, Run&& run) {
  Launched one;
  DRIVER(cuGraphCreate)(&one.graph, 0);
  if (const CUresult result = build(one); result != CUDA_SUCCESS) return result;
  CUresult result = DRIVER(cuGraphInstantiateWithFlags)(&one.executable, one.graph, flags);
  if (result == CUDA_SUCCESS) result = run(one.executable);
  if (result == CUDA_SUCCESS)
    launched.push_back(one);
  else
    forget(one);
  return result;
}

CUresult build_one(Launched& one, std::size_t size) {
  CUgraphNode node = nullptr;
  return add_allocation(one.graph, nullptr, size, node, one.pointer);
}

CUresult launch(CUgraphExec executable) { return DRIVER(cuGraphLaunch)(executable, nullptr); }

void drop_graphs() {
  for (const Launched& one : launched) {
    if (one.pointer != 0) DRIVER(cuMemFree_v2)(one.pointer);
    forget(one);
  }
  launched.clear();
  DRIVER(cuDeviceGraphMemTrim)(0);
}

/// Three times the bytes one after the other, and one of them left over: they share.
CUresult build_reusing(Launched& one, std::size_t size) {
  CUgraphNode node = nullptr, freed = nullptr;
  for (int i = 0; i < 2; ++i) {
    CUdeviceptr pointer = 0;
    if (const CUresult result = add_allocation(one.graph, i == 0 ? nullptr : &freed, size, node, pointer);
        result != CUDA_SUCCESS)
      return result;
    DRIVER(cuGraphAddMemFreeNode)(&freed, one.graph, &node, 1, pointer);
  }
  return add_allocation(one.graph, &freed, size, node, one.pointer);
}

CUresult capture(std::size_t size) {
  if (stream == nullptr) DRIVER(cuStreamCreate)(&stream, 1);
  Launched one;
  CUresult result = DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (result != CUDA_SUCCESS) return result;
  const CUresult taken = DRIVER(cuMemAllocAsync)(&one.pointer, size, stream);
  result = DRIVER(cuStreamEndCapture)(stream, &one.graph);
  if (taken != CUDA_SUCCESS || result != CUDA_SUCCESS) return taken != CUDA_SUCCESS ? taken : result;
  result = DRIVER(cuGraphInstantiateWithFlags)(&one.executable, one.graph, 0);
  if (result == CUDA_SUCCESS) result = DRIVER(cuGraphLaunch)(one.executable, stream);
  if (result == CUDA_SUCCESS)
    launched.push_back(one);
  else
    forget(one);
  return result;
}

/// Instantiated with the flag that takes the memory at once.
CUresult instantiate_uploaded(std::size_t size) {
  Launched one;
  DRIVER(cuGraphCreate)(&one.graph, 0);
  if (const CUresult result = build_one(one, size); result != CUDA_SUCCESS) return result;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  CUresult result = DRIVER(cuGraphInstantiateWithParams)(&one.executable, one.graph, &parameters);
  if (result != CUDA_SUCCESS) {
    DRIVER(cuGraphDestroy)(one.graph);
    return result;
  }
  result = launch(one.executable);
  if (result == CUDA_SUCCESS)
    launched.push_back(one);
  else
    forget(one);
  return result;
}

}  // namespace

std::vector<Way> graph_ways() {
  return {
      {"graph",
       [](std::size_t n) {
         return make(
             0, [&](Launched& one) { return build_one(one, n); }, launch);
       },
       drop_graphs},
      {"graph-ptsz",
       [](std::size_t n) {
         return make(
             0, [&](Launched& one) { return build_one(one, n); },
             [](CUgraphExec executable) { return find<cuGraphLaunch_t>("cuGraphLaunch_ptsz")(executable, nullptr); });
       },
       drop_graphs},
      {"graph-relaunched",
       [](std::size_t n) {
         return make(
             CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, [&](Launched& one) { return build_one(one, n); },
             [](CUgraphExec executable) {
               for (int i = 0; i < 2; ++i) {
                 if (const CUresult result = launch(executable); result != CUDA_SUCCESS) return result;
               }
               return launch(executable);
             });
       },
       drop_graphs},
      {"graph-reusing",
       [](std::size_t n) {
         return make(
             0, [&](Launched& one) { return build_reusing(one, n); }, launch);
       },
       drop_graphs},
      {"graph-uploaded",
       [](std::size_t n) {
         return make(
             0, [&](Launched& one) { return build_one(one, n); },
             [](CUgraphExec executable) {
               const CUresult result = DRIVER(cuGraphUpload)(executable, nullptr);
               return result == CUDA_SUCCESS ? launch(executable) : result;
             });
       },
       drop_graphs},
      {"graph-instantiated-uploaded", instantiate_uploaded, drop_graphs},
      {"capture", capture, drop_graphs},
  };
}

}  // namespace ration::workload
