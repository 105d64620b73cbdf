// Stream capture: memory taken and freed on a captured stream becomes part of a graph.
#include <array>

#include "driver/cuda_copy_abi.hpp"
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

TEST_F(Capture, CopiesAndFillsAreDoneByEachLaunchAndNotWhileTheyAreCaptured) {
  CUdeviceptr one = 0, two = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&one, kMiB), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAlloc_v2)(&two, kMiB), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemsetD8_v2)(one, 9, 64), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemsetD8_v2)(two, 9, 64), CUDA_SUCCESS);
  std::array<unsigned char, 16> sent{}, back{};
  CUDA_MEMCPY2D plane{};  // two rows of two bytes
  plane.srcMemoryType = plane.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  plane.srcDevice = one;
  plane.dstDevice = two + 32;
  plane.srcPitch = plane.dstPitch = 8;
  plane.WidthInBytes = plane.Height = 2;

  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemcpyHtoDAsync_v2)(one, sent.data(), sent.size(), stream_), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemcpyDtoDAsync_v2)(two, one, 16, stream_), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemsetD8Async)(two + 4, 7, 2, stream_), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemsetD8Async)(two + 8, 7, 0, stream_), CUDA_SUCCESS);
  EXPECT_EQ((driver_function<CUresult(const CUDA_MEMCPY2D*, CUstream)>("cuMemcpy2DAsync_v2")(&plane, stream_)),
            CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemcpyDtoHAsync_v2)(back.data(), two, back.size(), stream_), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuStreamEndCapture)(stream_, &graph), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuGraphInstantiateWithFlags)(&executable, graph, 0), CUDA_SUCCESS);
  unsigned char seen = 0;
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&seen, two, 1), CUDA_SUCCESS);
  EXPECT_EQ(seen, 9) << "nothing is done yet";
  EXPECT_EQ(back[0], 0);

  for (const unsigned char value : {std::uint8_t{1}, std::uint8_t{2}}) {
    sent.fill(value);  // what is there at the launch
    ASSERT_EQ(CU(cuGraphLaunch)(executable, stream_), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuStreamSynchronize)(stream_), CUDA_SUCCESS);
    for (std::size_t i = 0; i < back.size(); ++i) EXPECT_EQ(back[i], i == 4 || i == 5 ? 7U : value) << i;
    std::array<unsigned char, 16> rows{};
    ASSERT_EQ(CU(cuMemcpyDtoH_v2)(rows.data(), two + 32, rows.size()), CUDA_SUCCESS);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], i % 8 < 2 ? value : 9U) << i;
  }
  EXPECT_EQ(CU(cuGraphExecDestroy)(executable), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFree_v2)(one), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFree_v2)(two), CUDA_SUCCESS);
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
