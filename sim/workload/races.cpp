// Pairs of calls that two threads make for the same memory at the same time, again and again. Whatever their order, the
// book of the workload must count what stays allocated. After each round the program takes memory until it is denied:
// if the book has lost something, the device then holds more than the limit.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda_managed_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

constexpr std::size_t kBlock = std::size_t{256} << 20;
constexpr std::size_t kFilling = std::size_t{128} << 20;

/// Takes memory until it is denied, and frees it.
void fill() {
  std::vector<CUdeviceptr> taken;
  for (CUdeviceptr address = 0; DRIVER(cuMemAlloc_v2)(&address, kFilling) == CUDA_SUCCESS;) taken.push_back(address);
  for (const CUdeviceptr address : taken) DRIVER(cuMemFree_v2)(address);
}

/// A pair of calls. A round calls `prepare`, then `left` and `right` at once in two threads, then `clean`. A round that
/// cannot be prepared is skipped.
class Race {
 public:
  virtual ~Race() = default;
  virtual bool prepare() = 0;
  virtual void left() = 0;
  virtual void right() = 0;
  virtual void clean() = 0;
};

/// A race about physical memory. It reserves a range of addresses, and stores the handle and the descriptor that the
/// threads keep.
class VirtualRace : public Race {
 public:
  VirtualRace() { DRIVER(cuMemAddressReserve)(&address_, kBlock, 0, 0, 0); }
  bool prepare() override {
    kept_ = 0;
    descriptor_ = -1;
    return create(handle_, kBlock);
  }
  void clean() override {
    if (kept_ != 0) DRIVER(cuMemRelease)(kept_);
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 protected:
  static bool create(CUmemGenericAllocationHandle& handle, std::size_t size) {
    const auto properties = shareable();
    return DRIVER(cuMemCreate)(&handle, size, &properties, 0) == CUDA_SUCCESS;
  }
  static bool export_to(int& descriptor, CUmemGenericAllocationHandle handle) {
    const bool done = DRIVER(cuMemExportToShareableHandle)(&descriptor, handle,
                                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS;
    if (!done) descriptor = -1;
    return done;
  }
  void import() {
    if (DRIVER(cuMemImportFromShareableHandle)(&kept_, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor_)),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
      kept_ = 0;
  }
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
    is_there_ = map();
    DRIVER(cuMemRelease)(handle_);
    return is_there_;
  }
  void left() override {
    unmap();
    is_there_ = false;
  }
  void right() override {
    while (is_there_) {
      if (DRIVER(cuMemRetainAllocationHandle)(&kept_, reinterpret_cast<void*>(address_)) == CUDA_SUCCESS) return;
    }
    kept_ = 0;
  }
  std::atomic<bool> is_there_{false};
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
  void right() override { export_to(descriptor_, handle_); }
};

/// The release of the last handle of memory, against an import of the memory's descriptor.
class ImportRelease : public VirtualRace {
  bool prepare() override { return VirtualRace::prepare() && export_to(descriptor_, handle_); }
  void left() override {
    DRIVER(cuMemRelease)(handle_);
    ::close(descriptor_);
  }
  void right() override { import(); }
  void clean() override {
    descriptor_ = -1;
    VirtualRace::clean();
  }
};

/// A release of a handle, against an import whose new handle may get the same value.
class ImportReuse final : public VirtualRace {
  bool prepare() override {
    return VirtualRace::prepare() && export_to(descriptor_, handle_) && create(small_, std::size_t{2} << 20);
  }
  void left() override { DRIVER(cuMemRelease)(small_); }
  void right() override {
    import();
    DRIVER(cuMemRelease)(handle_);
    ::close(descriptor_);
    descriptor_ = -1;
  }
  CUmemGenericAllocationHandle small_ = 0;
};

/// An import of a descriptor, against a dup2() that makes the number of the descriptor stand for other memory.
class ImportSwap final : public VirtualRace {
  bool prepare() override {
    return VirtualRace::prepare() && export_to(other_, handle_) && create(small_, std::size_t{2} << 20) &&
           export_to(descriptor_, small_);
  }
  void left() override {
    ::dup2(other_, descriptor_);
    ::close(other_);
    DRIVER(cuMemRelease)(handle_);
  }
  void right() override {
    import();
    ::close(descriptor_);
    descriptor_ = -1;
  }
  void clean() override {
    DRIVER(cuMemRelease)(small_);
    VirtualRace::clean();
  }
  CUmemGenericAllocationHandle small_ = 0;
  int other_ = -1;
};

/// Two frees of the same block.
class FreeFree final : public Race {
  bool prepare() override { return DRIVER(cuMemAlloc_v2)(&address_, kBlock) == CUDA_SUCCESS; }
  void left() override { DRIVER(cuMemFree_v2)(address_); }
  void right() override { DRIVER(cuMemFree_v2)(address_); }
  void clean() override {}
  CUdeviceptr address_ = 0;
};

/// A free of a block, against an allocation that may reuse its address and room.
class FreeAlloc final : public Race {
  bool prepare() override { return DRIVER(cuMemAlloc_v2)(&address_, kBlock) == CUDA_SUCCESS; }
  void left() override { DRIVER(cuMemFree_v2)(address_); }
  void right() override {
    if (DRIVER(cuMemAlloc_v2)(&next_, kBlock) != CUDA_SUCCESS) next_ = 0;
    fill();
  }
  void clean() override { DRIVER(cuMemFree_v2)(next_); }
  CUdeviceptr address_ = 0, next_ = 0;
};

/// An allocation of a small block that fits only into the granule of another small block, against a thread that frees
/// the other block and takes the whole granule while the allocation waits in the driver.
class ShareFree final : public Race {
  bool prepare() override {
    if (DRIVER(cuMemAlloc_v2)(&small_, kSmall) != CUDA_SUCCESS) return false;
    for (const std::size_t size : {kFilling, kGranule}) {
      for (CUdeviceptr address = 0; DRIVER(cuMemAlloc_v2)(&address, size) == CUDA_SUCCESS;) filling_.push_back(address);
    }
    return true;
  }
  void left() override {
    if (DRIVER(cuMemAlloc_v2)(&beside_, kSmall) != CUDA_SUCCESS) beside_ = 0;
  }
  void right() override {
    DRIVER(cuMemFree_v2)(small_);
    if (DRIVER(cuMemAlloc_v2)(&whole_, kGranule) != CUDA_SUCCESS) whole_ = 0;
  }
  void clean() override {
    filling_.insert(filling_.end(), {beside_, whole_});
    for (const CUdeviceptr address : filling_) DRIVER(cuMemFree_v2)(address);
    filling_.clear();
  }
  static constexpr std::size_t kSmall = std::size_t{64} << 10, kGranule = std::size_t{2} << 20;
  CUdeviceptr small_ = 0, beside_ = 0, whole_ = 0;
  std::vector<CUdeviceptr> filling_;
};

/// A kernel that could reach all managed memory.
class Kernel {
 public:
  Kernel() {
    static constexpr char kImage[64] = "an image of an unknown form";
    CUmodule module = nullptr;
    DRIVER(cuModuleLoadData)(&module, kImage);
    DRIVER(cuModuleGetFunction)(&function_, module, "kernel");
  }
  void launch() { DRIVER(cuLaunchKernel)(function_, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr); }

 private:
  CUfunction function_ = nullptr;
};

/// A race about a block of managed memory. Only a part of the block fits under the limit beside plain memory. The right
/// thread accesses the block again and again until the left thread is done.
class ManagedRace : public Race {
 public:
  bool prepare() override {
    is_done_ = false;
    guess_ = take() ? address_ : 0;
    return guess_ != 0;
  }
  void left() override {
    act();
    is_done_ = true;
  }
  void right() override {
    while (!is_done_) reach(guess_);
  }
  void clean() override {
    kernel_.launch();
    give();
    DRIVER(cuMemFree_v2)(plain_);
    plain_ = 0;
  }

 protected:
  bool take() { return DRIVER(cuMemAllocManaged)(&address_, kManaged, 1) == CUDA_SUCCESS; }
  void give() { DRIVER(cuMemFree_v2)(address_); }
  void take_plain() {
    if (DRIVER(cuMemAlloc_v2)(&plain_, 2 * kBlock) != CUDA_SUCCESS) plain_ = 0;
  }
  virtual void act() = 0;
  virtual void reach(CUdeviceptr address) { DRIVER(cuMemPrefetchAsync)(address, kManaged, 0, nullptr); }

  static constexpr std::size_t kManaged = 8 * kBlock;
  CUdeviceptr address_ = 0, plain_ = 0;
  CUdeviceptr guess_ = 0;
  std::atomic<bool> is_done_{false};
  Kernel kernel_;
};

class PrefetchFree : public ManagedRace {
  void act() override { give(); }
  void clean() override {}
};

/// A free of a managed block, against requests that fill its room.
class TakeFree final : public PrefetchFree {
  bool prepare() override {
    if (!ManagedRace::prepare()) return false;
    kernel_.launch();
    return true;
  }
  void reach(CUdeviceptr) override { fill(); }
};

/// A free of a managed block, against prefetches. The address goes to a new block, and less of the new block fits under
/// the limit.
class PrefetchReuse final : public ManagedRace {
  void act() override {
    give();
    take_plain();
    if (!take()) address_ = 0;
  }
};

/// An allocation, against prefetches of its address that may come before the allocation has returned. The address can
/// be guessed: it is that of the block that was freed before.
class ManagedPrefetch : public ManagedRace {
  bool prepare() override {
    if (!ManagedRace::prepare()) return false;
    give();
    return true;
  }
  void act() override {
    if (!take()) address_ = 0;
  }
};

/// An allocation, against calls that unset the preferred location of its memory. The guard also sets that location, and
/// the guard's call must come last.
class ManagedAdvise final : public ManagedPrefetch {
  void reach(CUdeviceptr address) override {
    DRIVER(cuMemAdvise)(address, kManaged, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0);
  }
};

/// A request for plain memory that needs the room of managed memory, against prefetches.
class EvictPrefetch : public ManagedRace {
  bool prepare() override {
    if (!ManagedRace::prepare()) return false;
    kernel_.launch();
    return true;
  }
  void act() override { take_plain(); }
};

class EvictLaunch final : public EvictPrefetch {
  void reach(CUdeviceptr) override { kernel_.launch(); }
};

class EvictTake final : public EvictPrefetch {
  void reach(CUdeviceptr) override { fill(); }
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
  // Retains the context again, since drivers differ in whether a reset leaves it active.
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

/// A free of a block, against a child that opens it.
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
    wait();  // waits until the child has its context, for which there may be no room later
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
  void left() override {
    DRIVER(cuMemFree_v2)(address_);
    fill();
  }
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

/// Writes a byte once it has begun. Then reads handles from standard input: opens the first, closes it when the next
/// one comes, and so on. Answers each with a byte.
int be_child() {
  if (::write(1, "", 1) != 1) return 1;
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

struct Pair {
  const char* name;
  std::unique_ptr<Race> (*make)();
};
template <typename Kind>
std::unique_ptr<Race> make() {
  return std::make_unique<Kind>();
}
constexpr Pair kPairs[] = {
    {"retain-unmap", make<RetainUnmap>},
    {"map-release", make<MapRelease>},
    {"export-release", make<ExportRelease>},
    {"import-release", make<ImportRelease>},
    {"import-reuse", make<ImportReuse>},
    {"import-swap", make<ImportSwap>},
    {"free-free", make<FreeFree>},
    {"free-alloc", make<FreeAlloc>},
    {"share-free", make<ShareFree>},
    {"prefetch-free", make<PrefetchFree>},
    {"take-free", make<TakeFree>},
    {"prefetch-reuse", make<PrefetchReuse>},
    {"managed-prefetch", make<ManagedPrefetch>},
    {"managed-advise", make<ManagedAdvise>},
    {"evict-launch", make<EvictLaunch>},
    {"evict-prefetch", make<EvictPrefetch>},
    {"evict-take", make<EvictTake>},
    {"destroy-alloc", make<DestroyAlloc>},
    {"reset-alloc", make<ResetAlloc>},
    {"open-free", make<OpenFree>},
};

/// Writes a line to standard output, and waits for a line on standard input.
void tell(const char* line) {
  std::printf("%s\n", line);
  std::fflush(stdout);
  for (int letter = std::getchar(); letter != EOF && letter != '\n';) letter = std::getchar();
}

enum class Begins : int { kTogether, kFirst, kSecond };

/// The start of two threads' calls. Both begin at about the same moment, or the second begins when the first has had
/// time to get into the driver.
class Start {
 public:
  void await(Begins when, std::uint32_t turns) {
    using Clock = std::chrono::steady_clock;
    if (when == Begins::kTogether) wait_a_little(turns);
    if (when == Begins::kFirst) begun_ = true;
    if (when != Begins::kSecond) return;
    while (!begun_) std::this_thread::yield();
    begun_ = false;
    for (const auto end = Clock::now() + std::chrono::milliseconds(1); Clock::now() < end;) std::this_thread::yield();
  }

 private:
  static void wait_a_little(std::uint32_t turns) {
    for (std::atomic<std::uint32_t> turn{0}; turn.fetch_add(1, std::memory_order_relaxed) < turns;) {
    }
  }
  std::atomic<bool> begun_{false};
};

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
    std::atomic<std::uint32_t> turns{0}, awake{0};
    std::atomic<Begins> begins{Begins::kTogether};  // for the right thread
    Start together;
    const auto meet = [&] {  // spins, because a barrier wakes one thread long after the other
      for (const std::uint32_t both_of = (awake.fetch_add(1) / 2 + 1) * 2; awake < both_of;) std::this_thread::yield();
    };
    std::thread other([&] {
      DRIVER(cuCtxSetCurrent)(context);
      for (start.arrive_and_wait(); goes_on; start.arrive_and_wait()) {
        meet();
        together.await(begins, turns);
        both->right();
        end.arrive_and_wait();
      }
    });
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    for (int round = 0; round < rounds; ++round) {
      if (!both->prepare()) continue;
      constexpr Begins kRight[] = {Begins::kTogether, Begins::kFirst, Begins::kTogether, Begins::kSecond};
      constexpr Begins kLeft[] = {Begins::kTogether, Begins::kSecond, Begins::kTogether, Begins::kFirst};
      begins = kRight[round % 4];
      turns = static_cast<std::uint32_t>(random() % 1000);
      start.arrive_and_wait();
      meet();
      together.await(kLeft[round % 4], static_cast<std::uint32_t>(random() % 1000));
      both->left();
      end.arrive_and_wait();
      tell("round");
      fill();
      both->clean();
    }
    goes_on = false;
    start.arrive_and_wait();
    other.join();
  }
  tell("ended");
  return 0;
}

}  // namespace ration::workload
