// Graphs with memory nodes: when their memory is taken, shared, kept and given back.
#include <vector>

#include "simulated.hpp"

namespace ration::testing {
namespace {

class Graphs : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    ASSERT_EQ(CU(cuGraphCreate)(&graph_, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    for (const CUgraphExec one : executables_) EXPECT_EQ(CU(cuGraphExecDestroy)(one), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuGraphDestroy)(graph_), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
    Simulated::TearDown();
  }

  CUdeviceptr allocate(std::size_t size, std::vector<CUgraphNode> after, CUgraphNode& node) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    parameters.bytesize = size;
    EXPECT_EQ(CU(cuGraphAddMemAllocNode)(&node, graph_, after.data(), after.size(), &parameters), CUDA_SUCCESS);
    return parameters.dptr;
  }
  CUgraphNode release(CUdeviceptr pointer, std::vector<CUgraphNode> after) {
    CUgraphNode node = nullptr;
    EXPECT_EQ(CU(cuGraphAddMemFreeNode)(&node, graph_, after.data(), after.size(), pointer), CUDA_SUCCESS);
    return node;
  }
  CUgraphExec instantiate(unsigned long long flags = 0) {
    CUgraphExec executable = nullptr;
    EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&executable, graph_, flags), CUDA_SUCCESS);
    executables_.push_back(executable);
    return executable;
  }
  static std::size_t attribute(CUgraphMem_attribute which) {
    cuuint64_t value = 0;
    EXPECT_EQ(CU(cuDeviceGetGraphMemAttribute)(0, which, &value), CUDA_SUCCESS);
    return value;
  }
  static std::size_t reserved() { return attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT); }
  static std::size_t used() { return attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT); }
  std::size_t taken() const { return at_start_ - free_bytes(); }

  CUgraph graph_ = nullptr;
  std::vector<CUgraphExec> executables_;
};

TEST_F(Graphs, MemoryIsTakenAtLaunchAndKeptUntilTheTrim) {
  CUgraphNode node = nullptr;
  const CUdeviceptr pointer = allocate(100 * kMiB, {}, node);
  release(pointer, {node});
  const CUgraphExec executable = instantiate();
  EXPECT_EQ(taken(), 0U);
  ASSERT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 100 * kMiB);
  EXPECT_EQ(reserved(), 100 * kMiB);
  EXPECT_EQ(used(), 0U);
  ASSERT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 100 * kMiB) << "the second launch uses what the pool has";
  ASSERT_EQ(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0U);
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(Graphs, AnAllocationOutlivesItsGraphAtTheAddressItsNodeNamed) {
  CUgraphNode node = nullptr;
  const CUdeviceptr pointer = allocate(10 * kMiB + 5, {}, node);
  CUDA_MEM_ALLOC_NODE_PARAMS told{};
  ASSERT_EQ(CU(cuGraphMemAllocNodeGetParams)(node, &told), CUDA_SUCCESS);
  EXPECT_EQ(told.dptr, pointer);
  EXPECT_EQ(told.bytesize, 10 * kMiB + 5);
  CUgraphExec executable = instantiate();
  ASSERT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphExecDestroy)(executable), CUDA_SUCCESS);
  executables_.clear();
  ASSERT_EQ(CU(cuGraphDestroy)(graph_), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphCreate)(&graph_, 0), CUDA_SUCCESS);
  EXPECT_EQ(used(), 12 * kMiB);
  unsigned value = 7, back = 0;
  ASSERT_EQ(CU(cuMemcpyHtoD_v2)(pointer + 4 * kMiB, &value, sizeof value), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&back, pointer + 4 * kMiB, sizeof back), CUDA_SUCCESS);
  EXPECT_EQ(back, 7U);
  ASSERT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
  EXPECT_NE(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(taken(), 12 * kMiB) << "freed into the pool, which keeps it";
}

TEST_F(Graphs, RelaunchIsRefusedWhileAnAllocationLives) {
  CUgraphNode node = nullptr;
  const CUdeviceptr pointer = allocate(10 * kMiB, {}, node);
  const CUgraphExec executable = instantiate();
  ASSERT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(CU(cuMemFreeAsync)(pointer, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
}

TEST_F(Graphs, AutoFreeOnLaunchFreesWhatTheLastLaunchLeft) {
  CUgraphNode node = nullptr;
  const CUdeviceptr pointer = allocate(10 * kMiB, {}, node);
  const CUgraphExec executable = instantiate(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(used(), 10 * kMiB);
  EXPECT_EQ(reserved(), 10 * kMiB);
  ASSERT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
}

TEST_F(Graphs, AnotherGraphMayFreeTheAllocation) {
  CUgraphNode node = nullptr;
  const CUdeviceptr pointer = allocate(10 * kMiB, {}, node);
  ASSERT_EQ(CU(cuGraphLaunch)(instantiate(), nullptr), CUDA_SUCCESS);
  const CUgraph first = graph_;
  ASSERT_EQ(CU(cuGraphCreate)(&graph_, 0), CUDA_SUCCESS);
  release(pointer, {});
  const CUgraphExec second = instantiate();
  ASSERT_EQ(CU(cuGraphLaunch)(second, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(CU(cuGraphLaunch)(second, nullptr), CUDA_ERROR_INVALID_VALUE) << "nothing is left to free";
  EXPECT_EQ(CU(cuGraphDestroy)(first), CUDA_SUCCESS);
}

TEST_F(Graphs, WhatWaitsForAFreeReusesItsBytesAndWhatDoesNotWaitDoesNot) {
  CUgraphNode first = nullptr, second = nullptr, third = nullptr;
  const CUdeviceptr a = allocate(100 * kMiB, {}, first);
  const CUgraphNode freed = release(a, {first});
  const CUdeviceptr b = allocate(60 * kMiB, {freed}, second);  // behind the free: inside the first's bytes
  CUgraphNode later = nullptr;  // beside it, although far behind in any order: bytes of its own
  for (int i = 0; i < 4; ++i) {
    CUgraphNode next = nullptr;
    ASSERT_EQ(CU(cuGraphAddEmptyNode)(&next, graph_, later != nullptr ? &later : nullptr, later != nullptr ? 1 : 0),
              CUDA_SUCCESS);
    later = next;
  }
  const CUdeviceptr c = allocate(30 * kMiB, {later}, third);
  release(b, {second});
  release(c, {third});
  EXPECT_NE(a, b);
  ASSERT_EQ(CU(cuGraphLaunch)(instantiate(), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 130 * kMiB);
}

TEST_F(Graphs, AFullDeviceRefusesTheLaunchAndTakesNothing) {
  CUgraphNode node = nullptr;
  const CUdeviceptr pointer = allocate(600 * kMiB, {}, node);
  const CUgraphExec executable = instantiate();
  CUdeviceptr block = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&block, 500 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(CU(cuGraphUpload)(executable, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(taken(), 500 * kMiB);
  ASSERT_EQ(CU(cuMemFree_v2)(block), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphUpload)(executable, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 600 * kMiB) << "an upload takes the memory in advance";
  ASSERT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 600 * kMiB);
  ASSERT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
}

TEST_F(Graphs, TheWorkOfNodesIsDoneInTheOrderOfTheEdges) {
  CUgraphNode node = nullptr, set = nullptr, child = nullptr, host = nullptr;
  const CUdeviceptr pointer = allocate(2 * kMiB, {}, node);
  const CUDA_MEMSET_NODE_PARAMS fill{pointer, 0, 0x01020304, 4, 1024, 1};
  ASSERT_EQ(CU(cuGraphAddMemsetNode)(&set, graph_, &node, 1, &fill, nullptr), CUDA_SUCCESS);
  CUgraph inner = nullptr;
  ASSERT_EQ(CU(cuGraphCreate)(&inner, 0), CUDA_SUCCESS);
  static CUdeviceptr seen_at;
  static unsigned seen;
  seen_at = pointer + 4 * 1023;
  seen = 0;
  const CUDA_HOST_NODE_PARAMS look{[](void*) { CU(cuMemcpyDtoH_v2)(&seen, seen_at, 4); }, nullptr};
  ASSERT_EQ(CU(cuGraphAddHostNode)(&host, inner, nullptr, 0, &look), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphAddChildGraphNode)(&child, graph_, &set, 1, inner), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphDestroy)(inner), CUDA_SUCCESS);
  release(pointer, {child});
  ASSERT_EQ(CU(cuGraphLaunch)(instantiate(), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(seen, 0x01020304U);
}

TEST_F(Graphs, AnExecutableIsToldOtherThingsThanItsGraph) {
  CUdeviceptr pointer = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&pointer, kMiB), CUDA_SUCCESS);
  const auto launched = [&](CUgraphExec executable) {
    unsigned value = 0;
    EXPECT_EQ(CU(cuGraphLaunch)(executable, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&value, pointer, 4), CUDA_SUCCESS);
    return value;
  };
  CUgraphNode set = nullptr, child = nullptr, empty = nullptr;
  CUDA_MEMSET_NODE_PARAMS fill{pointer, 0, 1, 4, 4, 1};
  ASSERT_EQ(CU(cuGraphAddEmptyNode)(&empty, graph_, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphAddMemsetNode)(&set, graph_, nullptr, 0, &fill, nullptr), CUDA_SUCCESS);
  const CUgraphExec executable = instantiate();
  EXPECT_EQ(launched(executable), 1U);

  auto* change = driver_function<CUresult(CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*, CUcontext)>(
      "cuGraphExecMemsetNodeSetParams");
  fill.value = 2;
  EXPECT_EQ(change(executable, empty, &fill, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(change(executable, set, &fill, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(launched(executable), 2U);
  CUDA_MEMSET_NODE_PARAMS told{};
  ASSERT_EQ(
      (driver_function<CUresult(CUgraphNode, CUDA_MEMSET_NODE_PARAMS*)>("cuGraphMemsetNodeGetParams")(set, &told)),
      CUDA_SUCCESS);
  EXPECT_EQ(told.value, 1U) << "the graph itself stays as it was";

  auto* enable = driver_function<CUresult(CUgraphExec, CUgraphNode, unsigned)>("cuGraphNodeSetEnabled");
  ASSERT_EQ(CU(cuMemsetD8_v2)(pointer, 0, 4), CUDA_SUCCESS);
  EXPECT_EQ(enable(executable, empty, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(enable(executable, set, 0), CUDA_SUCCESS);
  EXPECT_EQ(launched(executable), 0U);
  ASSERT_EQ(enable(executable, set, 1), CUDA_SUCCESS);
  EXPECT_EQ(launched(executable), 2U);

  CUgraph outer = nullptr;
  CUgraphExec with_child = nullptr;
  ASSERT_EQ(CU(cuGraphCreate)(&outer, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphAddChildGraphNode)(&child, outer, nullptr, 0, graph_), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphInstantiateWithFlags)(&with_child, outer, 0), CUDA_SUCCESS);
  EXPECT_EQ(launched(with_child), 1U);
  fill.value = 3;
  ASSERT_EQ((driver_function<CUresult(CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*)>("cuGraphMemsetNodeSetParams")(
                set, &fill)),
            CUDA_SUCCESS);
  auto* change_child =
      driver_function<CUresult(CUgraphExec, CUgraphNode, CUgraph)>("cuGraphExecChildGraphNodeSetParams");
  EXPECT_EQ(change_child(with_child, child, outer), CUDA_ERROR_INVALID_VALUE) << "another shape";
  ASSERT_EQ(change_child(with_child, child, graph_), CUDA_SUCCESS);
  EXPECT_EQ(launched(with_child), 3U);
  EXPECT_EQ(CU(cuGraphExecDestroy)(with_child), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphDestroy)(outer), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
}

TEST_F(Graphs, AGraphThatAllocatesIsNeitherClonedNorNestedNorInstantiatedTwice) {
  CUgraphNode node = nullptr;
  const CUdeviceptr pointer = allocate(2 * kMiB, {}, node);
  release(pointer, {node});
  CUgraph copy = nullptr, outer = nullptr;
  EXPECT_EQ(CU(cuGraphClone)(&copy, graph_), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(CU(cuGraphCreate)(&outer, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphAddChildGraphNode)(&node, outer, nullptr, 0, graph_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(CU(cuGraphDestroy)(outer), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphDestroyNode)(node), CUDA_ERROR_NOT_SUPPORTED);
  instantiate();
  CUgraphExec second = nullptr;
  EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&second, graph_, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(Graphs, NodesAndEdgesAreToldAsTheyWereMade) {
  CUgraphNode root = nullptr, left = nullptr, right = nullptr;
  ASSERT_EQ(CU(cuGraphAddEmptyNode)(&root, graph_, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphAddEmptyNode)(&left, graph_, &root, 1), CUDA_SUCCESS);
  const CUgraphNode both[] = {root, left};
  ASSERT_EQ(CU(cuGraphAddEmptyNode)(&right, graph_, both, 2), CUDA_SUCCESS);
  std::size_t count = 0;
  ASSERT_EQ(CU(cuGraphGetEdges)(graph_, nullptr, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3U);
  CUgraphNode found[4] = {};
  count = 4;
  ASSERT_EQ(CU(cuGraphGetNodes)(graph_, found, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(found[3], nullptr);
  count = 4;
  ASSERT_EQ(CU(cuGraphGetRootNodes)(graph_, found, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(found[0], root);
  count = 4;
  ASSERT_EQ(CU(cuGraphNodeGetDependencies)(right, found, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2U);
  ASSERT_EQ(CU(cuGraphDestroyNode)(left), CUDA_SUCCESS);
  count = 4;
  ASSERT_EQ(CU(cuGraphNodeGetDependencies)(right, found, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1U);
}

}  // namespace
}  // namespace ration::testing
