// Contexts that many threads make and end at once, to test that the book of the workload stays correct.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

/// The calls of one thread. Another thread's reset may end the primary context at any moment while this thread uses it,
/// so errors of calls in a context are ignored.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  void one_call() {
    CUcontext context = nullptr;
    switch (random_() % 8) {
      case 0:
      case 1:
        if (DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS) ++retained_;
        return;
      case 2:
        if (retained_ == 0) return;
        --retained_;
        DRIVER(cuDevicePrimaryCtxRelease_v2)(0);
        return;
      case 3:
        DRIVER(cuDevicePrimaryCtxReset_v2)(0);
        return;
      case 4:
        if (DRIVER(cuCtxCreate_v2)(&context, 0, 0) != CUDA_SUCCESS) return;
        take_some();
        DRIVER(cuCtxDestroy_v2)(context);
        return;
      default:
        if (DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) != CUDA_SUCCESS) return;
        DRIVER(cuCtxPushCurrent_v2)(context);
        take_some();
        DRIVER(cuCtxPopCurrent_v2)(&context);
        DRIVER(cuDevicePrimaryCtxRelease_v2)(0);
    }
  }

  void release_all() {
    for (; retained_ > 0; --retained_) DRIVER(cuDevicePrimaryCtxRelease_v2)(0);
  }

 private:
  // Takes memory that no call frees: it ends with its context.
  void take_some() {
    CUdeviceptr address = 0;
    DRIVER(cuMemAlloc_v2)(&address, std::size_t{4} << (random_() % 22));
  }

  std::mt19937_64 random_;
  int retained_ = 0;
};

/// Prints `what`, and waits for a line on standard input. Meanwhile the program that reads `what` compares the figures
/// of this moment.
void meet(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
  for (int letter = std::getchar(); letter != EOF && letter != '\n';) letter = std::getchar();
}

template <typename Work>
void in_threads(int threads, Work&& work) {
  std::barrier start(threads);
  std::vector<std::thread> running;
  for (int index = 0; index < threads; ++index) {
    running.emplace_back([&, index] {
      start.arrive_and_wait();
      work(static_cast<std::uint64_t>(index));
    });
  }
  for (auto& thread : running) thread.join();
}

}  // namespace

int make_contexts(std::uint64_t seed, int threads, int calls) {
  std::atomic<int> succeeded{0};
  in_threads(threads, [&](std::uint64_t) {
    CUcontext context = nullptr;
    if (DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS) ++succeeded;
  });
  meet("retained " + std::to_string(succeeded));
  in_threads(threads, [&](std::uint64_t) { DRIVER(cuDevicePrimaryCtxRelease_v2)(0); });
  meet("released");
  std::vector<CUcontext> own(static_cast<std::size_t>(threads));
  in_threads(threads, [&](std::uint64_t index) { DRIVER(cuCtxCreate_v2)(&own[index], 0, 0); });
  meet("created " + std::to_string(std::count_if(own.begin(), own.end(), [](auto one) { return one != nullptr; })));
  for (const CUcontext context : own) DRIVER(cuCtxDestroy_v2)(context);
  in_threads(threads, [&](std::uint64_t index) {
    Maker maker(seed * 1000 + index);
    for (int call = 0; call < calls; ++call) maker.one_call();
    maker.release_all();
  });
  meet("ended");
  return 0;
}

}  // namespace ration::workload
