// Pairs of calls at the same memory from two threads at once, again and again: whatever their order is, the book of a
// workload has to know what lives on. After each round the program takes memory until it is denied: where the book has
// lost something, the device then holds more than the limit.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda_managed_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "workload/driver_calls.hpp"
#include "workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

constexpr std::size_t kBlock = std::size_t{256} << 20;
constexpr std::size_t kFilling = std::size_t{64} << 20;

/// One round: `prepare`, then `left` and `right` at once, each in its thread, then `clean`. A round that cannot be
/// prepared is passed over.
class Race {
 public:
  virtual ~Race() = default;
  virtual bool prepare() = 0;
  virtual void left() = 0;
  virtual void right() = 0;
  virtual void clean() = 0;
};

/// Physical memory, a reserved range, and what the two threads keep of the memory.
class VirtualRace : public Race {
 public:
  VirtualRace() { DRIVER(cuMemAddressReserve)(&address_, kBlock, 0, 0, 0); }
  bool prepare() override {
    const auto properties = shareable();
    kept_ = 0;
    descriptor_ = -1;
    return DRIVER(cuMemCreate)(&handle_, kBlock, &properties, 0) == CUDA_SUCCESS;
  }
  void clean() override {
    if (kept_ != 0) DRIVER(cuMemRelease)(kept_);
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 protected:
  bool map() { return mapped_ = DRIVER(cuMemMap)(address_, kBlock, 0, handle_, 0) == CUDA_SUCCESS; }
  void unmap() {
    if (mapped_) DRIVER(cuMemUnmap)(address_, kBlock);
    mapped_ = false;
  }
  CUdeviceptr address_ = 0;
  CUmemGenericAllocationHandle handle_ = 0, kept_ = 0;
  int descriptor_ = -1;
  bool mapped_ = false;
};

class RetainUnmap final : public VirtualRace {
  bool prepare() override {
    if (!VirtualRace::prepare()) return false;
    map();
    DRIVER(cuMemRelease)(handle_);
    return mapped_;
  }
  void left() override { unmap(); }
  void right() override {
    for (int tries = 0; tries < 100; ++tries) {
      if (DRIVER(cuMemRetainAllocationHandle)(&kept_, reinterpret_cast<void*>(address_)) == CUDA_SUCCESS) return;
    }
    kept_ = 0;
  }
};

class MapRelease final : public VirtualRace {
  void left() override { DRIVER(cuMemRelease)(handle_); }
  void right() override { map(); }
  void clean() override {
    unmap();
    VirtualRace::clean();
  }
};

class ExportRelease final : public VirtualRace {
  void left() override { DRIVER(cuMemRelease)(handle_); }
  void right() override {
    if (DRIVER(cuMemExportToShareableHandle)(&descriptor_, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) !=
        CUDA_SUCCESS)
      descriptor_ = -1;
  }
};

/// The last handle is released while the same process imports the memory's descriptor.
class ImportRelease final : public VirtualRace {
  bool prepare() override {
    return VirtualRace::prepare() &&
           DRIVER(cuMemExportToShareableHandle)(&descriptor_, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
               CUDA_SUCCESS;
  }
  void left() override {
    DRIVER(cuMemRelease)(handle_);
    ::close(descriptor_);
  }
  void right() override {
    if (DRIVER(cuMemImportFromShareableHandle)(&kept_, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor_)),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
      kept_ = 0;
  }
  void clean() override {
    descriptor_ = -1;
    VirtualRace::clean();
  }
};

/// Both free the same block.
class FreeFree final : public Race {
  bool prepare() override { return DRIVER(cuMemAlloc_v2)(&address_, kBlock) == CUDA_SUCCESS; }
  void left() override { DRIVER(cuMemFree_v2)(address_); }
  void right() override { DRIVER(cuMemFree_v2)(address_); }
  void clean() override {}
  CUdeviceptr address_ = 0;
};

class PrefetchFree final : public Race {
  bool prepare() override { return DRIVER(cuMemAllocManaged)(&address_, 4 * kBlock, 1) == CUDA_SUCCESS; }
  void left() override { DRIVER(cuMemFree_v2)(address_); }
  void right() override { DRIVER(cuMemPrefetchAsync)(address_, 4 * kBlock, 0, nullptr); }
  void clean() override {}
  CUdeviceptr address_ = 0;
};

class DestroyAlloc final : public Race {
  bool prepare() override {
    CUcontext popped = nullptr;
    return DRIVER(cuCtxCreate_v2)(&context_, 0, 0) == CUDA_SUCCESS &&
           DRIVER(cuCtxPopCurrent_v2)(&popped) == CUDA_SUCCESS;
  }
  void left() override { DRIVER(cuCtxDestroy_v2)(context_); }
  void right() override {
    CUdeviceptr address = 0;
    CUcontext popped = nullptr;
    if (DRIVER(cuCtxPushCurrent_v2)(context_) != CUDA_SUCCESS) return;
    DRIVER(cuMemAlloc_v2)(&address, kBlock);
    DRIVER(cuMemAlloc_v2)(&address, 4096);
    DRIVER(cuCtxPopCurrent_v2)(&popped);
  }
  void clean() override {}
  CUcontext context_ = nullptr;
};

class ResetAlloc final : public Race {
  // Retained anew: drivers differ in whether a reset leaves it active.
  bool prepare() override {
    CUcontext context = nullptr;
    return DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS;
  }
  void left() override {
    CUcontext context = nullptr;
    DRIVER(cuDevicePrimaryCtxReset_v2)(0);
    DRIVER(cuDevicePrimaryCtxRetain)(&context, 0);
  }
  void right() override {
    CUdeviceptr address = 0;
    for (int number = 0; number < 20; ++number) DRIVER(cuMemAlloc_v2)(&address, std::size_t{16} << 20);
  }
  void clean() override {
    DRIVER(cuDevicePrimaryCtxReset_v2)(0);
    DRIVER(cuDevicePrimaryCtxRelease_v2)(0);
    DRIVER(cuDevicePrimaryCtxRelease_v2)(0);
  }
};

/// A child opens the block while this process frees it.
class OpenFree final : public Race {
 public:
  OpenFree() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (const int end : {to[0], to[1], from[0], from[1]}) ::close(end);
      ::execl("/proc/self/exe", "ration-workload", "race", "child", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
  }
  ~OpenFree() override {
    ::close(to_);
    ::close(from_);
    ::waitpid(child_, nullptr, 0);
  }
  bool prepare() override {
    if (DRIVER(cuMemAlloc_v2)(&address_, kBlock) != CUDA_SUCCESS) return false;
    if (DRIVER(cuIpcGetMemHandle)(&handle_, address_) == CUDA_SUCCESS) return true;
    DRIVER(cuMemFree_v2)(address_);
    return false;
  }
  void left() override { DRIVER(cuMemFree_v2)(address_); }
  void right() override { (void)!::write(to_, &handle_, sizeof handle_), wait(); }
  void clean() override { (void)!::write(to_, &handle_, sizeof handle_), wait(); }

 private:
  void wait() const {
    char answered = 0;
    while (::read(from_, &answered, 1) < 0) {
    }
  }
  CUdeviceptr address_ = 0;
  CUipcMemHandle handle_{};
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};

/// Opens every other handle that comes on standard input, and closes it at the next.
int be_child() {
  CUipcMemHandle handle;
  CUdeviceptr pointer = 0;
  bool is_open = false;
  for (bool opens = true; ::read(0, &handle, sizeof handle) == sizeof handle; opens = !opens) {
    if (opens)
      is_open = DRIVER(cuIpcOpenMemHandle_v2)(&pointer, handle, 1) == CUDA_SUCCESS;
    else if (is_open)
      DRIVER(cuIpcCloseMemHandle)(pointer);
    if (::write(1, "", 1) != 1) return 1;
  }
  return 0;
}

/// Takes all that it is given, and gives it back.
void fill() {
  std::vector<CUdeviceptr> taken;
  for (CUdeviceptr address = 0; DRIVER(cuMemAlloc_v2)(&address, kFilling) == CUDA_SUCCESS;) taken.push_back(address);
  for (const CUdeviceptr address : taken) DRIVER(cuMemFree_v2)(address);
}

struct Pair {
  const char* name;
  std::unique_ptr<Race> (*make)();
};
template <typename Kind>
std::unique_ptr<Race> make() {
  return std::make_unique<Kind>();
}
constexpr Pair kPairs[] = {
    {"retain-unmap", make<RetainUnmap>},     {"map-release", make<MapRelease>}, {"export-release", make<ExportRelease>},
    {"import-release", make<ImportRelease>}, {"free-free", make<FreeFree>},     {"prefetch-free", make<PrefetchFree>},
    {"destroy-alloc", make<DestroyAlloc>},   {"reset-alloc", make<ResetAlloc>}, {"open-free", make<OpenFree>},
};

/// So many turns of nothing: the two do not always begin at the same moment.
void wait_a_little(std::uint32_t turns) {
  for (std::atomic<std::uint32_t> turn{0}; turn.fetch_add(1, std::memory_order_relaxed) < turns;) {
  }
}

}  // namespace

int race(const std::string& name, int rounds, std::uint64_t seed) {
  if (name == "child") return be_child();
  const auto* const pair =
      std::find_if(std::begin(kPairs), std::end(kPairs), [&](auto& one) { return name == one.name; });
  if (pair == std::end(kPairs)) return 2;
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent)(&context);
  {
    const auto both = pair->make();
    std::barrier start(2), end(2);
    std::atomic<bool> goes_on{true};
    std::atomic<std::uint32_t> delay{0}, awake{0};
    const auto meet = [&] {  // a barrier wakes one of them long after the other
      for (const std::uint32_t both_of = (awake.fetch_add(1) / 2 + 1) * 2; awake < both_of;) std::this_thread::yield();
    };
    std::thread other([&] {
      DRIVER(cuCtxSetCurrent)(context);
      for (start.arrive_and_wait(); goes_on; start.arrive_and_wait()) {
        meet();
        wait_a_little(delay % 1000);
        both->right();
        end.arrive_and_wait();
      }
    });
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    for (int round = 0; round < rounds; ++round) {
      if (!both->prepare()) continue;
      delay = static_cast<std::uint32_t>(random());
      start.arrive_and_wait();
      meet();
      wait_a_little(delay / 1000 % 1000);
      both->left();
      end.arrive_and_wait();
      fill();
      both->clean();
    }
    goes_on = false;
    start.arrive_and_wait();
    other.join();
  }
  std::printf("ended\n");
  std::fflush(stdout);
  for (int letter = std::getchar(); letter != EOF && letter != '\n';) letter = std::getchar();
  return 0;
}

}  // namespace ration::workload
