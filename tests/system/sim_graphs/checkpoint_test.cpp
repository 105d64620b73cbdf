// Checkpoints: the bytes go back to the device and the contents return where they were.
#include <unistd.h>

#include "driver/cuda_share_abi.hpp"
#include "simulated.hpp"

namespace ration::testing {
namespace {

class Checkpoint : public Simulated {
 protected:
  static CUprocessState state() {
    CUprocessState told{};
    EXPECT_EQ(CU(cuCheckpointProcessGetState)(::getpid(), &told), CUDA_SUCCESS);
    return told;
  }
};

TEST_F(Checkpoint, TheContentsReturnToTheirAddresses) {
  CUdeviceptr large = 0, small = 0, pooled = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&large, 64 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAlloc_v2)(&small, 512), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemAllocAsync)(&pooled, kMiB, nullptr), CUDA_SUCCESS);
  const CUdeviceptr all[] = {large, large + 63 * kMiB, small, pooled};
  for (unsigned i = 0; i < 4; ++i) ASSERT_EQ(CU(cuMemcpyHtoD_v2)(all[i], &i, sizeof i), CUDA_SUCCESS);
  const std::size_t before = free_bytes();
  EXPECT_EQ(CU(cuCheckpointProcessCheckpoint)(::getpid(), nullptr), CUDA_ERROR_ILLEGAL_STATE) << "not locked";
  ASSERT_EQ(CU(cuCheckpointProcessLock)(::getpid(), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(state(), CU_PROCESS_STATE_LOCKED);
  ASSERT_EQ(CU(cuCheckpointProcessCheckpoint)(::getpid(), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(state(), CU_PROCESS_STATE_CHECKPOINTED);
  CUdeviceptr refused = 0;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&refused, kMiB), CUDA_ERROR_ILLEGAL_STATE);
  ASSERT_EQ(CU(cuCheckpointProcessRestore)(::getpid(), nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuCheckpointProcessUnlock)(::getpid(), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(state(), CU_PROCESS_STATE_RUNNING);
  EXPECT_EQ(free_bytes(), before);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned back = 99;
    ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&back, all[i], sizeof back), CUDA_SUCCESS);
    EXPECT_EQ(back, i);
  }
  EXPECT_EQ(CU(cuMemFree_v2)(large), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFree_v2)(small), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFreeAsync)(pooled, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuStreamSynchronize)(nullptr), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ration::testing
