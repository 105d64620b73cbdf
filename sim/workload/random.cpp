// Random driver calls of every kind from several threads at once, to test that a limit holds against them.
#include <fcntl.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda_managed_abi.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

/// The calls of one thread and what it holds. Lack of memory is a valid answer; any other error ends the program.
class Caller {
 public:
  Caller(CUcontext context, std::uint64_t seed) : random_(seed), context_(context) {
    DRIVER(cuCtxSetCurrent)(context_);
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    expect(DRIVER(cuMemPoolCreate)(&pool_, &properties), "cuMemPoolCreate");
    expect(DRIVER(cuStreamCreate)(&stream_, 0), "cuStreamCreate");
    device_ = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  }

  void one_call() {
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
        return take_linear();
      case 3:
      case 4:
      case 5:
        return take_async();
      case 6:
        return take_virtual();
      case 7:
        return take_array();
      case 8:
        return random_() % 8 == 0 ? take_context() : take_linear();
      case 9:
        return change_pool();
      default:
        return drop_one();
    }
  }

  void drop_all() {
    while (!held_.empty()) drop_one();
    expect(DRIVER(cuStreamSynchronize)(stream_), "cuStreamSynchronize");
    expect(DRIVER(cuMemPoolDestroy)(pool_), "cuMemPoolDestroy");
  }

 private:
  enum class Kind { kLinear, kAsync, kVirtual, kArray, kContext };
  struct Held {
    Kind kind;
    std::uint64_t value;
    std::size_t size;
  };

  static bool expect(CUresult result, const char* call) {
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) return result == CUDA_SUCCESS;
    std::fprintf(stderr, "ration-workload: %s: error %d\n", call, result);
    std::exit(1);
  }

  // Returns a size from 1 byte to 32 MiB, small sizes as often as large ones.
  std::size_t size() { return (std::size_t{1} << (random_() % 26)) + random_() % 4096; }

  void take_linear() {
    CUdeviceptr address = 0;
    std::size_t pitch = 0;
    const std::size_t bytes = size();
    switch (random_() % 4) {
      case 0:
        if (!expect(DRIVER(cuMemAllocManaged)(&address, bytes, 1), "cuMemAllocManaged")) return;
        held_.push_back({Kind::kLinear, address, bytes});
        if (random_() % 2 == 0)
          expect(DRIVER(cuMemPrefetchAsync)(address, bytes, 0, stream_), "cuMemPrefetchAsync");
        else
          expect(DRIVER(cuMemsetD8_v2)(address, 1, bytes), "cuMemsetD8");
        return;
      case 1:
        if (expect(DRIVER(cuMemAllocPitch_v2)(&address, &pitch, bytes / 64 + 1, 64, 4), "cuMemAllocPitch"))
          held_.push_back({Kind::kLinear, address, bytes});
        return;
      default:
        if (expect(DRIVER(cuMemAlloc_v2)(&address, bytes), "cuMemAlloc"))
          held_.push_back({Kind::kLinear, address, bytes});
    }
  }

  void take_async() {
    CUdeviceptr address = 0;
    const std::size_t bytes = size();
    const bool own = random_() % 2 == 0;
    const CUresult result = own ? DRIVER(cuMemAllocFromPoolAsync)(&address, bytes, pool_, stream_)
                                : DRIVER(cuMemAllocAsync)(&address, bytes, stream_);
    if (expect(result, "cuMemAllocAsync")) held_.push_back({Kind::kAsync, address, bytes});
  }

  void take_virtual() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = device_;
    constexpr std::size_t granule = std::size_t{2} << 20;
    const std::size_t bytes = (1 + random_() % 12) * granule;
    CUmemGenericAllocationHandle handle = 0;
    if (!expect(DRIVER(cuMemCreate)(&handle, bytes, &properties, 0), "cuMemCreate")) return;
    CUdeviceptr address = 0;
    expect(DRIVER(cuMemAddressReserve)(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    expect(DRIVER(cuMemMap)(address, bytes, 0, handle, 0), "cuMemMap");
    expect(DRIVER(cuMemRelease)(handle), "cuMemRelease");  // the mapping keeps the memory
    held_.push_back({Kind::kVirtual, address, bytes});
  }

  void take_array() {
    CUDA_ARRAY_DESCRIPTOR description{};
    description.Width = 1 + random_() % 2048;
    description.Height = 1 + random_() % 1024;
    description.Format = CU_AD_FORMAT_FLOAT;
    description.NumChannels = 4;
    CUarray array = nullptr;
    if (expect(DRIVER(cuArrayCreate_v2)(&array, &description), "cuArrayCreate"))
      held_.push_back({Kind::kArray, reinterpret_cast<std::uint64_t>(array), 0});
  }

  // Makes a context with a few blocks in it. The blocks end with the context.
  void take_context() {
    CUcontext context = nullptr;
    if (!expect(DRIVER(cuCtxCreate_v2)(&context, 0, 0), "cuCtxCreate")) return;
    CUdeviceptr address = 0;
    for (int blocks = 0; blocks < 4; ++blocks) expect(DRIVER(cuMemAlloc_v2)(&address, size()), "cuMemAlloc");
    DRIVER(cuCtxSetCurrent)(context_);
    held_.push_back({Kind::kContext, reinterpret_cast<std::uint64_t>(context), 0});
  }

  void change_pool() {
    CUmemoryPool pool = pool_;
    if (random_() % 2 == 0) expect(DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0), "cuDeviceGetDefaultMemPool");
    cuuint64_t threshold = random_() % 2 == 0 ? 0 : ~cuuint64_t{0};
    switch (random_() % 3) {
      case 0:
        expect(DRIVER(cuMemPoolTrimTo)(pool, 0), "cuMemPoolTrimTo");
        return;
      case 1:
        expect(DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
               "cuMemPoolSetAttribute");
        return;
      default:
        expect(DRIVER(cuStreamSynchronize)(stream_), "cuStreamSynchronize");
    }
  }

  void drop_one() {
    if (held_.empty()) return;
    std::swap(held_[random_() % held_.size()], held_.back());
    const Held gone = held_.back();
    held_.pop_back();
    switch (gone.kind) {
      case Kind::kAsync:
        if (random_() % 4 != 0) {
          expect(DRIVER(cuMemFreeAsync)(gone.value, stream_), "cuMemFreeAsync");
          return;
        }
        [[fallthrough]];  // stream-ordered memory may be freed like any other
      case Kind::kLinear:
        expect(DRIVER(cuMemFree_v2)(gone.value), "cuMemFree");
        return;
      case Kind::kVirtual:
        expect(DRIVER(cuMemUnmap)(gone.value, gone.size), "cuMemUnmap");
        expect(DRIVER(cuMemAddressFree)(gone.value, gone.size), "cuMemAddressFree");
        return;
      case Kind::kArray:
        expect(DRIVER(cuArrayDestroy)(reinterpret_cast<CUarray>(gone.value)), "cuArrayDestroy");
        return;
      case Kind::kContext:
        expect(DRIVER(cuCtxDestroy_v2)(reinterpret_cast<CUcontext>(gone.value)), "cuCtxDestroy");
        DRIVER(cuCtxSetCurrent)(context_);
    }
  }

  std::mt19937_64 random_;
  CUcontext context_;
  CUmemoryPool pool_ = nullptr;
  CUstream stream_ = nullptr;
  CUmemLocation device_{};
  std::vector<Held> held_;
};

}  // namespace

int call_at_random(std::uint64_t seed, int threads, int calls, const std::string& gate_path) {
  CUcontext context = nullptr;
  DRIVER(cuCtxGetCurrent)(&context);
  std::printf("ready\n");
  std::fflush(stdout);
  const int gate = ::open(gate_path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<std::thread> running;
  for (int index = 0; index < threads; ++index) {
    running.emplace_back([=] {
      Caller caller(context, seed * 1000 + static_cast<std::uint64_t>(index));
      for (int call = 0; call < calls; ++call) caller.one_call();
      caller.drop_all();
    });
  }
  for (auto& thread : running) thread.join();
  CUmemoryPool pool = nullptr;
  DRIVER(cuDeviceGetDefaultMemPool)(&pool, 0);
  DRIVER(cuMemPoolTrimTo)(pool, 0);
  std::printf("returned\n");
  std::fflush(stdout);
  for (char byte = 0; ::read(gate, &byte, 1) == 1;) {
  }
  return 0;
}

}  // namespace ration::workload
