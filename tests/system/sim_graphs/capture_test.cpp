// Stream capture: memory taken and freed on a captured stream becomes part of a graph.
#include "simulated.hpp"

namespace ration::testing {
namespace {

class Capture : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    ASSERT_EQ(CU(cuStreamCreate)(&stream_, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(CU(cuStreamDestroy_v2)(stream_), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuDeviceGraphMemTrim)(0), CUDA_SUCCESS);
    Simulated::TearDown();
  }
  CUstreamCaptureStatus status(CUstream stream) const {
    CUstreamCaptureStatus told{};
    EXPECT_EQ(CU(cuStreamIsCapturing)(stream, &told), CUDA_SUCCESS);
    return told;
  }

  CUstream stream_ = nullptr;
};

TEST_F(Capture, AsyncMemoryBecomesNodesAndIsTakenByTheLaunch) {
  CUdeviceptr pointer = 0;
  CUgraph graph = nullptr;
  ASSERT_EQ(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(status(nullptr), CU_STREAM_CAPTURE_STATUS_NONE);
  ASSERT_EQ(CU(cuMemAllocAsync)(&pointer, 64 * kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemFreeAsync)(pointer, stream_), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(status(stream_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(free_bytes(), at_start_) << "capturing takes nothing";

  CUgraphNode nodes[4] = {};
  std::size_t count = 4;
  ASSERT_EQ(CU(cuGraphGetNodes)(graph, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 3U);
  const CUgraphNodeType expected[] = {CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_KERNEL,
                                      CU_GRAPH_NODE_TYPE_MEM_FREE};
  for (int i = 0; i < 3; ++i) {
    CUgraphNodeType type{};
    ASSERT_EQ(CU(cuGraphNodeGetType)(nodes[i], &type), CUDA_SUCCESS);
    EXPECT_EQ(type, expected[i]);
    std::size_t waits_for = 0;
    ASSERT_EQ(CU(cuGraphNodeGetDependencies)(nodes[i], nullptr, &waits_for), CUDA_SUCCESS);
    EXPECT_EQ(waits_for, i == 0 ? 0U : 1U) << "in the stream's order";
  }
  CUgraphExec executable = nullptr;
  ASSERT_EQ(CU(cuGraphInstantiateWithFlags)(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphLaunch)(executable, stream_), CUDA_SUCCESS);
  EXPECT_EQ(at_start_ - free_bytes(), 64 * kMiB);
  EXPECT_EQ(CU(cuGraphExecDestroy)(executable), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
}

TEST_F(Capture, ThePerThreadStreamCanBeCapturedAndTheLegacyOneCannot) {
  EXPECT_EQ(CU(cuStreamBeginCapture_v2)(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUdeviceptr captured = 0, immediate = 0;
  CUgraph graph = nullptr;
  ASSERT_EQ(driver_function<cuStreamBeginCapture_v2_t>("cuStreamBeginCapture_v2_ptsz")(nullptr,
                                                                                       CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
  ASSERT_EQ(driver_function<cuMemAllocAsync_t>("cuMemAllocAsync_ptsz")(&captured, 64 * kMiB, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), at_start_);
  ASSERT_EQ(CU(cuMemAllocAsync)(&immediate, 64 * kMiB, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(at_start_ - free_bytes(), 64 * kMiB) << "the legacy stream goes on as ever";
  ASSERT_EQ(driver_function<cuStreamEndCapture_t>("cuStreamEndCapture_ptsz")(nullptr, &graph), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFreeAsync)(immediate, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamSynchronize)(nullptr), CUDA_SUCCESS);
}

TEST_F(Capture, BeginningTwiceAndEndingWithoutBeginningAreRefused) {
  CUgraph graph = nullptr;
  EXPECT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_ERROR_ILLEGAL_STATE);
  ASSERT_EQ(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
  ASSERT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
}

TEST_F(Capture, InformationNamesTheGraphAndWhatTheNextWorkWaitsFor) {
  CUstreamCaptureStatus told{};
  cuuint64_t id = 0;
  CUgraph graph = nullptr, ended = nullptr;
  const CUgraphNode* waits_for = nullptr;
  std::size_t count = 9;
  ASSERT_EQ(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuStreamGetCaptureInfo_v2)(stream_, &told, &id, &graph, &waits_for, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 0U);
  EXPECT_NE(id, 0U);
  ASSERT_EQ(CU(cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuStreamGetCaptureInfo_v2)(stream_, &told, &id, &graph, &waits_for, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 1U);
  CUgraphNode node = nullptr;
  std::size_t one = 1;
  ASSERT_EQ(CU(cuGraphGetNodes)(graph, &node, &one), CUDA_SUCCESS);
  EXPECT_EQ(waits_for[0], node);
  ASSERT_EQ(CU(cuStreamEndCapture)(stream_, &ended), CUDA_SUCCESS);
  EXPECT_EQ(ended, graph);
  EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
}

TEST_F(Capture, TheThreadsModeIsExchanged) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(CU(cuThreadExchangeStreamCaptureMode)(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  ASSERT_EQ(CU(cuThreadExchangeStreamCaptureMode)(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

}  // namespace
}  // namespace ration::testing
