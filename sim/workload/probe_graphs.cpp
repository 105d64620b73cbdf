// The ways of taking memory through graphs: built by hand, captured, uploaded, launched again.
#include "driver/cuda_graph_abi.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

struct Launched {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  std::vector<CUdeviceptr> pointers = {};  // still allocated after the launch
};
std::vector<Launched> launched;
CUstream stream = nullptr;

CUDA_MEM_ALLOC_NODE_PARAMS allocation(std::size_t size, int device) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  parameters.bytesize = size;
  return parameters;
}

CUresult add_allocation(CUgraph graph, const CUgraphNode* after, std::size_t size, CUgraphNode& node,
                        CUdeviceptr& pointer, int device = 0) {
  auto parameters = allocation(size, device);
  const CUresult result = DRIVER(cuGraphAddMemAllocNode)(&node, graph, after, after != nullptr ? 1 : 0, &parameters);
  pointer = parameters.dptr;
  return result;
}

/// Adds an allocation that waits for no other node and is not freed.
CUresult add_lasting(Launched& one, std::size_t size, int device = 0) {
  CUgraphNode node = nullptr;
  return add_allocation(one.graph, nullptr, size, node, one.pointers.emplace_back(), device);
}

void forget(const Launched& one) {
  DRIVER(cuGraphExecDestroy)(one.executable);
  DRIVER(cuGraphDestroy)(one.graph);
}

/// Instantiates and runs the graph that `build` makes. Keeps it if that succeeds.
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

CUresult launch(CUgraphExec executable) { return DRIVER(cuGraphLaunch)(executable, nullptr); }

void drop_graphs() {
  for (const Launched& one : launched) {
    for (const CUdeviceptr pointer : one.pointers) DRIVER(cuMemFree_v2)(pointer);
    forget(one);
  }
  launched.clear();
  DRIVER(cuCtxSynchronize)();  // waits, because the memory of launches that still run is not given back
  for (const CUdevice device : tried_devices()) DRIVER(cuDeviceGraphMemTrim)(device);
}

/// Allocates three times, one after the other, and frees the first two, so that all share the memory.
CUresult build_reusing(Launched& one, std::size_t size) {
  CUgraphNode node = nullptr, freed = nullptr;
  for (int i = 0; i < 2; ++i) {
    CUdeviceptr pointer = 0;
    if (const CUresult result = add_allocation(one.graph, i == 0 ? nullptr : &freed, size, node, pointer);
        result != CUDA_SUCCESS)
      return result;
    DRIVER(cuGraphAddMemFreeNode)(&freed, one.graph, &node, 1, pointer);
  }
  return add_allocation(one.graph, &freed, size, node, one.pointers.emplace_back());
}

/// Adds an allocation that stays, and one that the graph itself frees.
CUresult build_with_temporary(Launched& one, std::size_t size) {
  CUgraphNode node = nullptr, freed = nullptr;
  CUdeviceptr pointer = 0;
  if (const CUresult result = add_lasting(one, size); result != CUDA_SUCCESS) return result;
  const CUresult result = add_allocation(one.graph, nullptr, size / 4, node, pointer);
  return result == CUDA_SUCCESS ? DRIVER(cuGraphAddMemFreeNode)(&freed, one.graph, &node, 1, pointer) : result;
}

CUresult build_parts(Launched& one, std::size_t size) {
  for (int i = 0; i < 4; ++i) {
    if (const CUresult result = add_lasting(one, size / 4); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult build_by_parameters(Launched& one, std::size_t size) {
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  parameters.alloc = allocation(size, 0);
  CUgraphNode node = nullptr;
  const CUresult result = DRIVER(cuGraphAddNode)(&node, one.graph, nullptr, 0, &parameters);
  one.pointers.push_back(parameters.alloc.dptr);
  return result;
}

/// Takes memory of both devices: the first node takes `size` bytes of one device, and the last node takes a little of
/// the device `last`.
CUresult build_on_two(Launched& one, std::size_t size, int last) {
  const CUresult result = add_lasting(one, size, 1 - last);
  return result == CUDA_SUCCESS ? add_lasting(one, std::size_t{2} << 20, last) : result;
}

/// Captures `take` on a stream, and launches the graph.
template <typename Take>
CUresult capture(Take&& take) {
  if (stream == nullptr) DRIVER(cuStreamCreate)(&stream, 1);
  Launched one;
  CUresult result = DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (result != CUDA_SUCCESS) return result;
  const CUresult taken = take(&one.pointers.emplace_back());
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

/// Instantiates a graph with the flag that takes the memory at once, and launches it.
CUresult instantiate_uploaded(std::size_t size) {
  Launched one;
  DRIVER(cuGraphCreate)(&one.graph, 0);
  if (const CUresult result = add_lasting(one, size); result != CUDA_SUCCESS) return result;
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
  const auto by = [](auto build, auto run, unsigned long long flags = 0) {
    return [=](std::size_t n) {
      return make(
          flags, [&](Launched& one) { return build(one, n); }, run);
    };
  };
  const auto one_node = [](Launched& one, std::size_t n) { return add_lasting(one, n); };
  const auto launch_often = [](CUgraphExec executable) {
    for (int i = 0; i < 2; ++i) {
      if (const CUresult result = launch(executable); result != CUDA_SUCCESS) return result;
    }
    return launch(executable);
  };
  const auto launch_ptsz = [](CUgraphExec executable) {
    return find<cuGraphLaunch_t>("cuGraphLaunch_ptsz")(executable, nullptr);
  };
  const auto upload_and_launch = [](CUgraphExec executable) {
    const CUresult result = DRIVER(cuGraphUpload)(executable, nullptr);
    return result == CUDA_SUCCESS ? launch(executable) : result;
  };
  constexpr auto kAutoFree = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  return {
      {"graph", by(one_node, launch), drop_graphs},
      {"graph-ptsz", by(one_node, launch_ptsz), drop_graphs},
      {"graph-relaunched", by(one_node, launch_often, kAutoFree), drop_graphs},
      {"graph-relaunched-with-temporary", by(build_with_temporary, launch_often, kAutoFree), drop_graphs},
      {"graph-reusing", by(build_reusing, launch), drop_graphs},
      {"graph-of-parts", by(build_parts, launch), drop_graphs},
      {"graph-by-parameters", by(build_by_parameters, launch), drop_graphs, 0, 1, "cuGraphAddNode"},
      {"graph-uploaded", by(one_node, upload_and_launch), drop_graphs},
      {"graph-instantiated-uploaded", instantiate_uploaded, drop_graphs, 0, 1, "cuGraphInstantiateWithParams"},
      {"capture",
       [](std::size_t n) { return capture([n](CUdeviceptr* out) { return DRIVER(cuMemAllocAsync)(out, n, stream); }); },
       drop_graphs},
      {"capture-from-a-pool",
       [](std::size_t n) {
         return capture([n](CUdeviceptr* out) {
           CUmemoryPool pool = nullptr;
           DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0);
           return DRIVER(cuMemAllocFromPoolAsync)(out, n, pool, stream);
         });
       },
       drop_graphs},
      {"graph-other-device", by([](Launched& one, std::size_t n) { return add_lasting(one, n, 1); }, launch),
       drop_graphs, 1, 2},
      {"graph-on-two-devices", by([](Launched& one, std::size_t n) { return build_on_two(one, n, 1); }, launch),
       drop_graphs, 0, 2},
      {"graph-mostly-other-device", by([](Launched& one, std::size_t n) { return build_on_two(one, n, 0); }, launch),
       drop_graphs, 1, 2},
  };
}

}  // namespace ration::workload
