// Memory that several processes hold: it lives until the last of them has let go of it, however that one ends.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <memory>

#include "driver/cuda_share_abi.hpp"
#include "driver/nvml_abi.hpp"
#include "peer.hpp"
#include "simulated.hpp"

namespace ration::testing {
namespace {

class Peer {
 public:
  Peer() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
    child_ = ::fork();
    if (child_ == 0) {
      const int socket = ::dup(pair[1]);
      ::execl(PEER, PEER, std::to_string(socket).c_str(), SIM_FOLDER "/libcuda.so.1", nullptr);
      ::_exit(127);
    }
    ::close(pair[1]);
    socket_ = pair[0];
  }
  ~Peer() { end(0); }

  /// Its answer; an answer that does not come is an unknown error.
  Message ask(Order order, std::uint64_t value = 0, std::uint64_t size = 0, const void* bytes = nullptr,
              int descriptor = -1) {
    Message message{static_cast<int>(order), value, size, {}};
    if (bytes != nullptr) std::memcpy(message.bytes, bytes, sizeof message.bytes);
    if (!send_message(socket_, message, descriptor) || !receive_message(socket_, message, got))
      message.order = CUDA_ERROR_UNKNOWN;
    return message;
  }
  /// Closes its socket, or kills it, and waits until it is gone.
  void end(int signal = SIGKILL) {
    if (child_ < 0) return;
    if (signal != 0) ::kill(child_, signal);
    ::close(socket_);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  [[nodiscard]] pid_t pid() const { return child_; }

  int got = -1;  // the descriptor of the last answer

 private:
  pid_t child_ = -1;
  int socket_ = -1;
};

constexpr std::size_t kSize = 64 * kMiB;

class Sharing : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    peer_ = std::make_unique<Peer>();
    // The peer's own context, so that the numbers below are of the blocks alone.
    ASSERT_EQ(peer_->ask(Order::kFree, 0).order, CUDA_SUCCESS);
    before_ = free_bytes();
  }
  void TearDown() override {
    peer_.reset();
    bytes_of(::getpid());  // a question clears away what dead processes left
    Simulated::TearDown();
  }
  std::size_t taken() const { return before_ - free_bytes(); }

  static std::size_t bytes_of(pid_t pid) {
    using namespace nvml;
    static void* library = ::dlopen(SIM_FOLDER "/libnvidia-ml.so.1", RTLD_NOW);
    const auto initialise = reinterpret_cast<nvmlReturn_t (*)()>(::dlsym(library, "nvmlInit_v2"));
    const auto by_index =
        reinterpret_cast<nvmlReturn_t (*)(unsigned, nvmlDevice_t*)>(::dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    const auto list = reinterpret_cast<nvmlReturn_t (*)(nvmlDevice_t, unsigned*, nvmlProcessInfo_t*)>(
        ::dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
    initialise();
    nvmlDevice_t device{};
    by_index(0, &device);
    nvmlProcessInfo_t processes[64];
    unsigned count = 64;
    EXPECT_EQ(list(device, &count, processes), NVML_SUCCESS);
    for (unsigned i = 0; i < count; ++i) {
      if (static_cast<pid_t>(processes[i].pid) == pid) return processes[i].usedGpuMemory;
    }
    return 0;
  }

  std::unique_ptr<Peer> peer_;
  std::size_t before_ = 0;
};

TEST_F(Sharing, AnIpcBlockLivesUntilTheImporterClosesIt) {
  CUdeviceptr pointer = 0;
  CUipcMemHandle handle;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&pointer, kSize), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuIpcGetMemHandle)(&handle, pointer), CUDA_SUCCESS);
  const std::size_t own = bytes_of(::getpid()), others = bytes_of(peer_->pid());
  const Message opened = peer_->ask(Order::kIpcOpen, 0, 0, &handle);
  ASSERT_EQ(opened.order, CUDA_SUCCESS);
  ASSERT_EQ(peer_->ask(Order::kWrite, opened.value).order, CUDA_SUCCESS);
  unsigned seen = 0;
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&seen, pointer, sizeof seen), CUDA_SUCCESS);
  EXPECT_EQ(seen, 42U) << "both look at the same bytes";
  ASSERT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kSize);
  EXPECT_EQ(bytes_of(::getpid()), own - kSize) << "what it gave up is not its own any more";
  EXPECT_EQ(bytes_of(peer_->pid()), others + kSize) << "but the importer's, who has a duplicate of it";
  EXPECT_EQ(peer_->ask(Order::kRead, opened.value).value, 42U);
  ASSERT_EQ(peer_->ask(Order::kIpcClose, opened.value).order, CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0U);
  EXPECT_EQ(bytes_of(peer_->pid()), others);
  EXPECT_NE(peer_->ask(Order::kIpcOpen, 0, 0, &handle).order, CUDA_SUCCESS) << "freed meanwhile";
}

TEST_F(Sharing, AKilledImporterHoldsNothing) {
  const std::size_t own = bytes_of(::getpid());
  CUdeviceptr pointer = 0;
  CUipcMemHandle handle;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&pointer, kSize), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuIpcGetMemHandle)(&handle, pointer), CUDA_SUCCESS);
  ASSERT_EQ(peer_->ask(Order::kIpcOpen, 0, 0, &handle).order, CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kSize);
  const std::size_t peers = bytes_of(peer_->pid());  // with its context
  const std::size_t left = free_bytes();
  peer_->end(SIGKILL);
  EXPECT_EQ(free_bytes() - left, peers);
  EXPECT_EQ(bytes_of(::getpid()), own);
}

TEST_F(Sharing, AnIpcHandleOpensTwiceAndIsNotForItsOwnProcess) {
  CUdeviceptr pointer = 0, own = 0;
  CUipcMemHandle handle;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&pointer, 4096), CUDA_SUCCESS) << "a piece of a granule is shared with the granule";
  ASSERT_EQ(CU(cuIpcGetMemHandle)(&handle, pointer), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuIpcOpenMemHandle_v2)(&own, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
  const auto first = peer_->ask(Order::kIpcOpen, 0, 0, &handle).value;
  EXPECT_EQ(peer_->ask(Order::kIpcOpen, 0, 0, &handle).value, first);
  ASSERT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
  EXPECT_EQ(peer_->ask(Order::kFree, first).order, CUDA_ERROR_INVALID_VALUE) << "closed, not freed";
  EXPECT_EQ(peer_->ask(Order::kIpcClose, first).order, CUDA_SUCCESS);
  EXPECT_EQ(taken(), 2 * kMiB);
  EXPECT_EQ(peer_->ask(Order::kIpcClose, first).order, CUDA_SUCCESS);
  EXPECT_EQ(peer_->ask(Order::kIpcClose, first).order, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(taken(), 0U);
}

TEST_F(Sharing, ADescriptorKeepsPhysicalMemoryWhereverItTravels) {
  const Message made = peer_->ask(Order::kCreate, kSize);
  ASSERT_EQ(made.order, CUDA_SUCCESS);
  const int descriptor = peer_->got;
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(peer_->ask(Order::kRelease, made.value).order, CUDA_SUCCESS);
  EXPECT_EQ(taken(), kSize) << "no handle and no mapping: the descriptor alone holds it";
  const Message again = peer_->ask(Order::kImport, 0, 0, nullptr, descriptor);
  ASSERT_EQ(again.order, CUDA_SUCCESS) << "its own process may import it too";
  ::close(descriptor);
  const Message mapped = peer_->ask(Order::kMap, again.value, kSize);
  ASSERT_EQ(mapped.order, CUDA_SUCCESS);
  ASSERT_EQ(peer_->ask(Order::kRelease, again.value).order, CUDA_SUCCESS);
  EXPECT_EQ(taken(), kSize) << "the mapping holds it";
  ASSERT_EQ(peer_->ask(Order::kUnmap, mapped.value, kSize).order, CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0U);
}

TEST_F(Sharing, TheMemoryOfAKilledExporterLivesWhileAnImporterHasIt) {
  ASSERT_EQ(peer_->ask(Order::kCreate, kSize).order, CUDA_SUCCESS);
  const int descriptor = peer_->got;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(CU(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(std::intptr_t{descriptor}),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  ::close(descriptor);
  const pid_t exporter = peer_->pid();
  peer_->end(SIGKILL);
  EXPECT_EQ(bytes_of(exporter), 0U) << "no dead process is listed";
  CUdeviceptr block = 0;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&block, before_ + 64 * kMiB), CUDA_ERROR_OUT_OF_MEMORY)
      << "the dead one's context is free, its block not";
  CUdeviceptr address = 0;
  ASSERT_EQ(CU(cuMemAddressReserve)(&address, kSize, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemMap)(address, kSize, 0, handle, 0), CUDA_SUCCESS);
  unsigned value = 9, back = 0;
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(address, &value, sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&back, address, sizeof back), CUDA_SUCCESS);
  EXPECT_EQ(back, 9U);
  EXPECT_EQ(CU(cuMemUnmap)(address, kSize), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemAlloc_v2)(&block, before_ + 64 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemFree_v2)(block), CUDA_SUCCESS);
}

TEST_F(Sharing, DescriptorsAreOneFileNewlyOpenedAndStandForTheirOwnBlocks) {
  ASSERT_EQ(peer_->ask(Order::kCreate, kSize).order, CUDA_SUCCESS);
  const int one = peer_->got;
  ASSERT_EQ(peer_->ask(Order::kCreate, 2 * kSize).order, CUDA_SUCCESS);
  const int two = peer_->got;
  struct stat first {
  }, second{};
  ASSERT_EQ(::fstat(one, &first), 0);
  ASSERT_EQ(::fstat(two, &second), 0);
  EXPECT_EQ(first.st_ino, second.st_ino) << "as exported descriptors are all the driver's control device";
  CUmemGenericAllocationHandle handle = 0;
  const int copy = ::dup(two);
  ::close(two);
  ASSERT_EQ(CU(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(std::intptr_t{copy}),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  ::close(copy);
  CUdeviceptr address = 0;
  ASSERT_EQ(CU(cuMemAddressReserve)(&address, 2 * kSize, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemMap)(address, 2 * kSize, 0, handle, 0), CUDA_SUCCESS) << "the larger one";
  EXPECT_EQ(CU(cuMemUnmap)(address, 2 * kSize), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
  ::close(one);
}

TEST_F(Sharing, WhatOnlyADescriptorHoldsIsNobodysAndGoesWithIt) {
  const std::size_t own = bytes_of(::getpid());
  ASSERT_EQ(peer_->ask(Order::kCreate, kSize).order, CUDA_SUCCESS);
  const int descriptor = peer_->got;
  peer_->end(SIGKILL);
  EXPECT_EQ(bytes_of(::getpid()), own);
  const std::size_t held = free_bytes();
  ::close(descriptor);
  EXPECT_EQ(free_bytes() - held, kSize);
}

TEST_F(Sharing, OnlyMemoryMadeForItIsExported) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(CU(cuMemCreate)(&handle, kSize, &properties, 0), CUDA_SUCCESS);
  int descriptor = -1;
  EXPECT_EQ(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
}

TEST_F(Sharing, APointerOfASharedPoolLivesUntilBothHaveFreedIt) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(CU(cuMemPoolCreate)(&pool, &properties), CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  ASSERT_EQ(CU(cuMemAllocFromPoolAsync)(&pointer, kSize, pool, nullptr), CUDA_SUCCESS);
  int descriptor = -1;
  ASSERT_EQ(CU(cuMemPoolExportToShareableHandle)(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  CUmemPoolPtrExportData data;
  ASSERT_EQ(CU(cuMemPoolExportPointer)(&data, pointer), CUDA_SUCCESS);
  const Message imported = peer_->ask(Order::kPoolImport, 0, 0, nullptr, descriptor);
  ::close(descriptor);
  ASSERT_EQ(imported.order, CUDA_SUCCESS);
  const Message opened = peer_->ask(Order::kPoolPointer, imported.value, 0, &data);
  ASSERT_EQ(opened.order, CUDA_SUCCESS);
  ASSERT_EQ(peer_->ask(Order::kWrite, opened.value).order, CUDA_SUCCESS);
  unsigned seen = 0;
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&seen, pointer, sizeof seen), CUDA_SUCCESS);
  EXPECT_EQ(seen, 42U);
  ASSERT_EQ(CU(cuMemFreeAsync)(pointer, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kSize);
  ASSERT_EQ(peer_->ask(Order::kFreeAsync, opened.value).order, CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0U);
}

TEST_F(Sharing, ACheckpointedProcessLeavesItsBytesToOthersAndIsRestoredWhenTheyFit) {
  CUdeviceptr pointer = 0;
  ASSERT_EQ(CU(cuMemAlloc_v2)(&pointer, 600 * kMiB), CUDA_SUCCESS);
  const unsigned value = 7;
  ASSERT_EQ(CU(cuMemcpyHtoD_v2)(pointer + 599 * kMiB, &value, sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(peer_->ask(Order::kAllocate, 600 * kMiB).order, CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(CU(cuCheckpointProcessLock)(::getpid(), nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuCheckpointProcessCheckpoint)(::getpid(), nullptr), CUDA_SUCCESS);
  EXPECT_EQ(bytes_of(::getpid()), 0U);
  const Message taken_by_peer = peer_->ask(Order::kAllocate, 600 * kMiB);
  ASSERT_EQ(taken_by_peer.order, CUDA_SUCCESS);
  ASSERT_EQ(peer_->ask(Order::kWrite, taken_by_peer.value + 599 * kMiB).order, CUDA_SUCCESS);
  EXPECT_EQ(CU(cuCheckpointProcessRestore)(::getpid(), nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(peer_->ask(Order::kFree, taken_by_peer.value).order, CUDA_SUCCESS);
  ASSERT_EQ(CU(cuCheckpointProcessRestore)(::getpid(), nullptr), CUDA_SUCCESS);
  ASSERT_EQ(CU(cuCheckpointProcessUnlock)(::getpid(), nullptr), CUDA_SUCCESS);
  unsigned back = 0;
  ASSERT_EQ(CU(cuMemcpyDtoH_v2)(&back, pointer + 599 * kMiB, sizeof back), CUDA_SUCCESS);
  EXPECT_EQ(back, 7U);
  EXPECT_EQ(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ration::testing
