// What the guard adds to the driver's calls: the same measurements with and without it, in turn, in one run.
//   ration-bench [calls | book]    prints the table, or that part of it
//   ration-bench guards FOLDER     this build's guard against another's, which lies in FOLDER
//   ration-bench instructions [FOLDER]   the instructions of that guard, or of this build's (takes valgrind)
//   ration-bench recording [FOLDER]   what recording adds to an event; what it adds while it is off, to the guard in
//   FOLDER ration-bench pairs             nanoseconds a pair on the driver at hand, by 1 and by 8 threads: one line
//   each
// Every round starts a fresh process for each side; the figure is the median over the rounds of (with - without).
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "book/book.hpp"
#include "book_under_fire.hpp"
#include "driver/cuda_abi.hpp"
#include "instructions.hpp"
#include "reference_machine.hpp"

using namespace ration;
using namespace ration::cuda;

namespace {

constexpr int kRounds = 7;
constexpr int kNeighbours = 150;
constexpr int kStarters = 32;
constexpr std::uint64_t kCardGib = 16;
constexpr std::uint64_t kCountedCardGib = 8;  // of which valgrind can map what the simulator sets aside

void* library = nullptr;
template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Nanoseconds per call of `body`, best of five batches: the machine's interruptions only ever add.
template <typename Body>
double cost(int calls, Body&& body) {
  double best = 1e18;
  for (int batch = 0; batch < 5; ++batch) {
    const double start = now_ns();
    for (int i = 0; i < calls; ++i) body();
    best = std::min(best, (now_ns() - start) / calls);
  }
  return best;
}

void start_driver(CUcontext& context) {
  library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr || find<cuInit_t>("cuInit")(0) != CUDA_SUCCESS ||
      find<cuDevicePrimaryCtxRetain_t>("cuDevicePrimaryCtxRetain")(&context, 0) != CUDA_SUCCESS ||
      find<cuCtxSetCurrent_t>("cuCtxSetCurrent")(context) != CUDA_SUCCESS) {
    std::fprintf(stderr, "ration-bench: no GPU\n");
    std::exit(1);
  }
}

/// An allocation and its release.
struct PlainPair {
  cuMemAlloc_v2_t* allocate = find<cuMemAlloc_v2_t>("cuMemAlloc_v2");
  cuMemFree_v2_t* release = find<cuMemFree_v2_t>("cuMemFree_v2");
  void operator()(std::size_t size) const {
    CUdeviceptr pointer = 0;
    if (allocate(&pointer, size) != CUDA_SUCCESS) std::exit(3);
    release(pointer);
  }
};

/// Per thread, of so many at once.
template <typename Body>
double cost_together(int count, CUcontext context, int calls, Body&& body) {
  std::atomic<int> arrived{0};
  std::vector<double> each(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (double& own : each) {
    threads.emplace_back([&] {
      find<cuCtxSetCurrent_t>("cuCtxSetCurrent")(context);
      arrived.fetch_add(1);
      while (arrived.load() < count) {
      }
      own = cost(calls, body);
    });
  }
  for (auto& thread : threads) thread.join();
  return std::accumulate(each.begin(), each.end(), 0.0) / count;
}

/// One pair alone: with many processes around, other calls of the simulator take a millisecond.
int measure_pair() {
  CUcontext context = nullptr;
  start_driver(context);
  auto* allocate = find<cuMemAlloc_v2_t>("cuMemAlloc_v2");
  auto* release = find<cuMemFree_v2_t>("cuMemFree_v2");
  std::printf("large-0 %f\n", cost(50'000, [&] {
                CUdeviceptr pointer = 0;
                if (allocate(&pointer, 2 << 20) != CUDA_SUCCESS) std::exit(3);
                release(pointer);
              }));
  return 0;
}

/// The calls whose events are many, alone: what recording adds to them.
int measure_events() {
  CUcontext context = nullptr;
  start_driver(context);
  const PlainPair pair;
  auto* allocate_async = find<cuMemAllocAsync_t>("cuMemAllocAsync");
  auto* release_async = find<cuMemFreeAsync_t>("cuMemFreeAsync");
  std::printf("large-0 %f\n", cost(50'000, [&] { pair(2 << 20); }));
  std::printf("small-0 %f\n", cost(50'000, [&] { pair(4096); }));
  std::printf("async %f\n", cost(50'000, [&] {
                CUdeviceptr pointer = 0;
                allocate_async(&pointer, 1 << 20, nullptr);
                release_async(pointer, nullptr);
              }));
  std::printf("threads-2 %f\n", cost_together(2, context, 50'000, [&] { pair(2 << 20); }));
  return 0;
}

int measure() {
  CUcontext context = nullptr;
  start_driver(context);
  const PlainPair pair;
  auto* allocate = pair.allocate;
  auto* release = pair.release;
  std::vector<CUdeviceptr> live;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1000}, std::size_t{100'000}}) {
    while (live.size() < count) {
      live.push_back(0);
      if (allocate(&live.back(), 4096) != CUDA_SUCCESS) return 3;
    }
    std::printf("large-%zu %f\n", count, cost(50'000, [&] { pair(2 << 20); }));
    std::printf("small-%zu %f\n", count, cost(50'000, [&] { pair(4096); }));
  }
  for (const CUdeviceptr pointer : live) release(pointer);
  std::printf("threads-2 %f\n", cost_together(2, context, 50'000, [&] { pair(2 << 20); }));
  auto* allocate_async = find<cuMemAllocAsync_t>("cuMemAllocAsync");
  auto* release_async = find<cuMemFreeAsync_t>("cuMemFreeAsync");
  std::printf("async %f\n", cost(50'000, [&] {
                CUdeviceptr pointer = 0;
                allocate_async(&pointer, 1 << 20, nullptr);
                release_async(pointer, nullptr);
              }));
  auto* pin = find<cuMemHostAlloc_t>("cuMemHostAlloc");
  auto* unpin = find<cuMemFreeHost_t>("cuMemFreeHost");
  std::printf("pinned %f\n", cost(50'000, [&] {
                void* pointer = nullptr;
                pin(&pointer, 4096, 0);
                unpin(pointer);
              }));
  // The simulator asks the system for each block that is allocated, and for none that is registered.
  auto* enter = find<cuMemHostRegister_v2_t>("cuMemHostRegister_v2");
  auto* leave = find<cuMemHostUnregister_t>("cuMemHostUnregister");
  alignas(4096) static char page[4096];
  std::printf("registered %f\n", cost(50'000, [&] {
                enter(page, sizeof page, 0);
                leave(page);
              }));
  auto* info = find<cuMemGetInfo_v2_t>("cuMemGetInfo_v2");
  std::printf("info %f\n", cost(100'000, [&] {
                std::size_t available = 0, total = 0;
                info(&available, &total);
              }));
  auto* launch = find<cuLaunchKernel_t>("cuLaunchKernel");
  std::printf("launch %f\n", cost(1'000'000, [&] { launch(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); }));
  CUdeviceptr target = 0;
  allocate(&target, 4096);
  auto* copy = find<cuMemcpyHtoD_v2_t>("cuMemcpyHtoD_v2");
  int word = 1;
  std::printf("copy %f\n", cost(1'000'000, [&] { copy(target, &word, sizeof word); }));
  return 0;
}

/// On whatever driver there is; a device needs microseconds to milliseconds for each.
int measure_pairs() {
  CUcontext context = nullptr;
  start_driver(context);
  constexpr std::size_t kSize = 2 << 20;
  const auto must = [](CUresult result) {
    if (result != CUDA_SUCCESS) std::exit(3);
  };
  auto* allocate = find<cuMemAlloc_v2_t>("cuMemAlloc_v2");
  auto* release = find<cuMemFree_v2_t>("cuMemFree_v2");
  const auto malloc_pair = [&] {
    CUdeviceptr pointer = 0;
    must(allocate(&pointer, kSize));
    must(release(pointer));
  };
  auto* allocate_async = find<cuMemAllocAsync_t>("cuMemAllocAsync");
  auto* release_async = find<cuMemFreeAsync_t>("cuMemFreeAsync");
  const auto async_pair = [&] {
    CUdeviceptr pointer = 0;
    must(allocate_async(&pointer, kSize, nullptr));
    must(release_async(pointer, nullptr));
  };
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  auto* create = find<cuMemCreate_t>("cuMemCreate");
  auto* reserve = find<cuMemAddressReserve_t>("cuMemAddressReserve");
  auto* map = find<cuMemMap_t>("cuMemMap");
  auto* set_access = find<cuMemSetAccess_t>("cuMemSetAccess");
  auto* unmap = find<cuMemUnmap_t>("cuMemUnmap");
  auto* free_address = find<cuMemAddressFree_t>("cuMemAddressFree");
  auto* release_handle = find<cuMemRelease_t>("cuMemRelease");
  const auto mapped_pair = [&] {
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle handle = 0;
    must(create(&handle, kSize, &properties, 0));
    must(reserve(&address, kSize, 0, 0, 0));
    must(map(address, kSize, 0, handle, 0));
    must(set_access(address, kSize, &access, 1));
    must(unmap(address, kSize));
    must(free_address(address, kSize));
    must(release_handle(handle));
  };
  for (const int threads : {1, 8}) {
    std::printf("malloc-%d %f\n", threads, cost_together(threads, context, 1000, malloc_pair));
    std::printf("async-%d %f\n", threads, cost_together(threads, context, 2000, async_pair));
    std::printf("map-%d %f\n", threads, cost_together(threads, context, 200, mapped_pair));
  }
  return 0;
}

int repeat_pinned(int times) {
  const auto pin = find<cuMemHostAlloc_t>("cuMemHostAlloc");
  const auto unpin = find<cuMemFreeHost_t>("cuMemFreeHost");
  for (int i = 0; i < times; ++i) {
    void* pointer = nullptr;
    if (pin(&pointer, 4096, 0) != CUDA_SUCCESS || unpin(pointer) != CUDA_SUCCESS) return 3;
  }
  return 0;
}

/// Makes `times` pairs of one kind, whose instructions are counted.
int repeat(const std::string& key, int times) {
  CUcontext context = nullptr;
  start_driver(context);
  if (key == "pinned") return repeat_pinned(times);
  const bool is_async = key == "async";
  const std::size_t size = is_async ? 1 << 20 : key == "large" ? 64 << 20 : 512;
  const auto allocate = find<cuMemAlloc_v2_t>("cuMemAlloc_v2");
  const auto release = find<cuMemFree_v2_t>("cuMemFree_v2");
  const auto allocate_async = find<cuMemAllocAsync_t>("cuMemAllocAsync");
  const auto release_async = find<cuMemFreeAsync_t>("cuMemFreeAsync");
  for (int i = 0; i < times; ++i) {
    CUdeviceptr pointer = 0;
    if ((is_async ? allocate_async(&pointer, size, nullptr) : allocate(&pointer, size)) != CUDA_SUCCESS) return 3;
    if ((is_async ? release_async(pointer, nullptr) : release(pointer)) != CUDA_SUCCESS) return 3;
  }
  return 0;
}

int hold_a_slot() {
  CUcontext context = nullptr;
  start_driver(context);
  (void)!::write(STDOUT_FILENO, "r", 1);
  char byte = 0;
  (void)!::read(STDIN_FILENO, &byte, 1);
  return 0;
}

int only_start() {
  CUcontext context = nullptr;
  start_driver(context);
  return 0;
}

struct Side {
  std::string guard;   ///< folder of the guard; empty: none
  std::string folder;  ///< of the build
  std::string book;
  std::string record;  ///< folder of a recording's parts; empty: none
  bool sites = false;  ///< events of the recording have call sites
};

/// Starts this program again in `mode`. Pipes for its standard input and output where asked for.
pid_t spawn(const Side& side, const std::vector<std::string>& command, int input, int output) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  if (output >= 0) ::dup2(output, STDOUT_FILENO);
  ::setenv("LD_LIBRARY_PATH", (side.folder + "/sim").c_str(), 1);
  if (!side.guard.empty()) {
    ::setenv("RATION_BOOK", side.book.c_str(), 1);
    if (!side.record.empty()) ::setenv("RATION_RECORD", side.record.c_str(), 1);
    if (side.sites) ::setenv("RATION_RECORD_SITES", "native", 1);
    ::setenv("RATION_DRIVER_PATH", (side.folder + "/sim").c_str(), 1);
    ::setenv("LD_PRELOAD", (side.guard + "/libcuda.so.1:" + side.guard + "/libnvidia-ml.so.1").c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

std::map<std::string, double> measured(const Side& side, const char* mode) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) std::exit(1);
  const pid_t child = spawn(side, {"/proc/self/exe", mode}, -1, pipe_ends[1]);
  ::close(pipe_ends[1]);
  std::map<std::string, double> result;
  FILE* lines = ::fdopen(pipe_ends[0], "r");
  char name[64];
  double value = 0;
  while (std::fscanf(lines, "%63s %lf", name, &value) == 2) result[name] = value;
  std::fclose(lines);
  ::waitpid(child, nullptr, 0);
  return result;
}

/// Milliseconds from starting `count` processes to the end of the last.
double together(const Side& side, const std::vector<std::string>& command, int count) {
  const double start = now_ns();
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) children.push_back(spawn(side, command, -1, -1));
  int failures = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failures += status != 0;
  }
  const double milliseconds = (now_ns() - start) / 1e6;
  if (failures > 0) {  // a process that could not start is no measurement
    std::fprintf(stderr, "ration-bench: %d of %d processes failed: %s\n", failures, count, command.back().c_str());
    std::exit(1);
  }
  return milliseconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  const char* key;
  const char* text;
  double most;
};
constexpr Row kRows[] = {{"large-0", "cuMemAlloc + cuMemFree, 2 MiB, nothing live", 60},
                         {"large-1000", "same, 1,000 live", 70},
                         {"large-100000", "same, 100,000 live", 100},
                         {"small-0", "cuMemAlloc + cuMemFree, 4 KiB, nothing live", 60},
                         {"small-1000", "same, 1,000 live", 70},
                         {"small-100000", "same, 100,000 live", 100},
                         {"threads-2", "2 MiB pair, 2 threads, per thread", 120},
                         {"async", "cuMemAllocAsync + cuMemFreeAsync, 1 MiB", 120},
                         {"pinned", "cuMemHostAlloc + cuMemFreeHost, 4 KiB", 60},
                         {"registered", "cuMemHostRegister + cuMemHostUnregister, 4 KiB", 60},
                         {"info", "cuMemGetInfo", 100},
                         {"launch", "cuLaunchKernel", 2},
                         {"copy", "cuMemcpyHtoD, 4 bytes", 2}};

/// `slowness`: how many of this machine's nanoseconds make one of the reference machine's; 1 where the bound is no time
/// of a call.
void print(const char* text, double without, double with, double added, double most, const char* unit,
           double slowness = 1) {
  std::printf("| %s | %.1f %s | %.1f %s | %.1f %s | %.1f %s | ≤ %.0f %s | %s |\n", text, without, unit, with, unit,
              added, unit, added / slowness, unit, most, unit, added / slowness <= most ? "ok" : "MISSED");
}

/// UUID of the simulated card, asked of a process that sees it.
book::DeviceUuid card(const Side& plain) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) std::exit(1);
  const pid_t child = spawn(plain, {"/proc/self/exe", "uuid"}, -1, pipe_ends[1]);
  book::DeviceUuid uuid{};
  if (::read(pipe_ends[0], uuid.data(), uuid.size()) != static_cast<ssize_t>(uuid.size())) std::exit(1);
  ::waitpid(child, nullptr, 0);
  return uuid;
}

/// What a process of that side takes the card's total for.
std::size_t total_seen_by(const Side& side) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) std::exit(1);
  const pid_t child = spawn(side, {"/proc/self/exe", "total"}, -1, pipe_ends[1]);
  std::size_t total = 0;
  if (::read(pipe_ends[0], &total, sizeof total) != sizeof total) std::exit(1);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  ::waitpid(child, nullptr, 0);
  return total;
}

int print_total() {
  CUcontext context = nullptr;
  start_driver(context);
  std::size_t available = 0, total = 0;
  find<cuMemGetInfo_v2_t>("cuMemGetInfo_v2")(&available, &total);
  return ::write(STDOUT_FILENO, &total, sizeof total) == sizeof total ? 0 : 1;
}

int print_uuid() {
  CUcontext context = nullptr;
  start_driver(context);
  CUuuid uuid{};
  find<cuDeviceGetUuid_t>("cuDeviceGetUuid")(&uuid, 0);
  return ::write(STDOUT_FILENO, uuid.bytes, sizeof uuid.bytes) == sizeof uuid.bytes ? 0 : 1;
}

struct Sides {
  Side plain, shimmed;
};

/// A simulated node of its own, and a book with room for whatever is measured.
Sides prepare(const std::string& scratch, std::uint64_t card_gib = kCardGib) {
  ::setenv("RATION_SIM", ("T4:" + std::to_string(card_gib) + "GiB:context=1MiB*1").c_str(), 1);
  ::setenv("RATION_SIM_DIR", scratch.c_str(), 1);
  const std::string folder = std::filesystem::canonical("/proc/self/exe").parent_path().parent_path();
  Sides sides{{"", folder, "", ""}, {folder + "/shim", folder, scratch + "/bench.book", ""}};
  book::NewBook contents;
  contents.name = "bench";
  book::NewAccount account;
  account.device = card(sides.plain);
  account.device_total = Bytes{card_gib << 30};
  account.limit =
      account.device_total - Bytes{std::uint64_t{64} << 20};  // so that the guard can be told from its absence
  account.context_estimate = Bytes{std::uint64_t{1} << 20};   // as `ration run` enters it, once it was measured
  contents.accounts.push_back(account);
  if (book::Book::create(sides.shimmed.book.c_str(), contents) != book::BookStatus::kOk) std::exit(1);
  return sides;
}

void expect_guard(const Side& plain, const Side& shimmed) {
  if (total_seen_by(plain) != total_seen_by(shimmed)) return;
  std::fprintf(stderr, "ration-bench: the guard is not in front of the driver; nothing was measured\n");
  std::exit(1);
}

/// Of two guards, in turn: the best of all rounds, since what interrupts only adds.
void compare_guards(const std::string& scratch, const std::string& other_folder) {
  const auto [plain, own] = prepare(scratch);
  Side other = own;
  other.guard = other_folder;
  expect_guard(plain, own);
  expect_guard(plain, other);
  std::map<std::string, double> best_own, best_other;
  const auto keep = [](std::map<std::string, double>& best, const std::map<std::string, double>& round) {
    for (const auto& [name, value] : round) {
      const auto at = best.emplace(name, value).first;
      at->second = std::min(at->second, value);
    }
  };
  for (int i = 0; i < 2 * kRounds; ++i) {
    keep(best_own, measured(own, "measure"));
    keep(best_other, measured(other, "measure"));
  }
  std::printf(
      "| call | this build's guard | the other's | ratio | must be | |\n| --- | --- | --- | --- | --- | --- |\n");
  for (const char* key : {"large-0", "large-1000", "small-0", "small-1000", "async"}) {
    const Row& row = *std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const Row& each) { return std::strcmp(each.key, key) == 0; });
    const double ratio = best_other[key] / best_own[key];
    std::printf("| %s | %.1f ns | %.1f ns | %.3f | ≤ 1.05 | %s |\n", row.text, best_own[key], best_other[key], ratio,
                ratio <= 1.05 ? "ok" : "MISSED");
  }
}

/// What recording adds to an event: each pair of calls is two. The best of all rounds, as above.
void compare_recording(const std::string& scratch, const std::string& other_folder) {
  const auto [plain, off] = prepare(scratch);
  Side on = off, other = off;
  on.record = scratch + "/parts";
  Side sites = on;
  sites.sites = true;
  other.guard = other_folder;
  expect_guard(plain, off);
  std::map<std::string, double> best_off, best_on, best_sites, best_other;
  const auto keep = [](std::map<std::string, double>& best, const Side& side) {
    if (!side.record.empty()) std::filesystem::create_directories(side.record);
    for (const auto& [name, value] : measured(side, "measure-events")) {
      const auto at = best.emplace(name, value).first;
      at->second = std::min(at->second, value);
    }
    if (!side.record.empty()) std::filesystem::remove_all(side.record);
  };
  for (int i = 0; i < 2 * kRounds; ++i) {
    keep(best_off, off);
    keep(best_on, on);
    keep(best_sites, sites);
    if (!other_folder.empty()) keep(best_other, other);
  }
  const double slowness = bench::measure_slowness();
  std::printf("| an event of | off | on | added | on the reference machine | must be | |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [key, most] :
       {std::pair{"large-0", 15.0}, {"small-0", 15.0}, {"async", 15.0}, {"threads-2", 20.0}}) {
    const Row& row = *std::find_if(std::begin(kRows), std::end(kRows),
                                   [key = key](const Row& each) { return std::strcmp(each.key, key) == 0; });
    print(row.text, best_off[key] / 2, best_on[key] / 2, (best_on[key] - best_off[key]) / 2, most, "ns", slowness);
    print("same, with native call sites", best_off[key] / 2, best_sites[key] / 2, (best_sites[key] - best_off[key]) / 2,
          100, "ns", slowness);
    if (!other_folder.empty())
      std::printf("| same, recording off, against the other guard | %.1f ns | %.1f ns | %.2f ns | | ≤ 0.3 ns | |\n",
                  best_other[key] / 2, best_off[key] / 2, (best_off[key] - best_other[key]) / 2);
  }
}

struct Counted {
  const char* key;
  const char* text;
  double most;  ///< what a pair took before races with other threads were held
};
constexpr Counted kCounted[] = {{"async", "cuMemAllocAsync + cuMemFreeAsync, 1 MiB", 740},
                                {"large", "cuMemAlloc + cuMemFree, 64 MiB", 787},
                                {"small", "cuMemAlloc + cuMemFree, 512 B", 1033},
                                {"pinned", "cuMemHostAlloc + cuMemFreeHost, 4 KiB", 500}};

/// What the guard itself executes for a pair, nothing else live: the difference of two runs.
void count_instructions(const std::string& scratch, const std::string& folder) {
  auto [plain, shimmed] = prepare(scratch, kCountedCardGib);
  if (!folder.empty()) shimmed.guard = folder;
  expect_guard(plain, shimmed);
  const std::string own = std::filesystem::canonical("/proc/self/exe"), counts = scratch + "/callgrind.out";
  const std::string guard = std::filesystem::canonical(shimmed.guard + "/libcuda.so.1");
  const auto count = [&, &shimmed = shimmed](const char* key, int times) {
    (void)together(shimmed,
                   {"/usr/bin/valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=" + counts, own, "repeat", key,
                    std::to_string(times)},
                   1);
    return bench::instructions_of(counts, guard);
  };
  constexpr int kFew = 1000, kMany = 3000;
  std::printf("| instructions of the guard for | counted | must be | |\n| --- | --- | --- | --- |\n");
  for (const Counted& one : kCounted) {
    const double each = (count(one.key, kMany) - count(one.key, kFew)) / (kMany - kFew);
    std::printf("| %s | %.0f | ≤ %.0f | %s |\n", one.text, each, one.most, each <= one.most ? "ok" : "MISSED");
  }
}

void compare_all(const std::string& scratch) {
  const auto [plain, shimmed] = prepare(scratch);
  std::map<std::string, std::vector<double>> without, with;
  const auto round = [&, &plain = plain, &shimmed = shimmed](const char* mode, const std::string& suffix) {
    for (const auto& [name, value] : measured(plain, mode)) without[name + suffix].push_back(value);
    for (const auto& [name, value] : measured(shimmed, mode)) with[name + suffix].push_back(value);
  };
  expect_guard(plain, shimmed);
  for (int i = 0; i < kRounds; ++i) round("measure", "");
  const double slowness = bench::measure_slowness();
  std::printf(
      "| call | without | with ration | added | on the reference machine | must be | |\n| --- | --- | --- | --- | --- "
      "| --- | --- |\n");
  const auto row = [&](const std::string& key, const char* text, double most) {
    const double before = median(without[key]);
    const double after = median(with[key]);
    print(text, before, after, after - before, most, "ns", slowness);
  };
  for (const Row& one : kRows) row(one.key, one.text, one.most);

  std::vector<pid_t> neighbours;
  int ready[2], leave[2];
  if (::pipe2(ready, O_CLOEXEC) != 0 || ::pipe2(leave, O_CLOEXEC) != 0) std::exit(1);
  for (int i = 0; i < kNeighbours; ++i)
    neighbours.push_back(spawn(shimmed, {"/proc/self/exe", "hold"}, leave[0], ready[1]));
  for (int i = 0; i < kNeighbours; ++i) {
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) std::exit(1);
  }
  for (int i = 0; i < kRounds; ++i) round("measure-pair", "+150");
  row("large-0+150", "2 MiB pair, 150 other processes in the workload", 70);
  ::close(leave[0]);
  ::close(leave[1]);
  for (const pid_t neighbour : neighbours) ::waitpid(neighbour, nullptr, 0);

  ::setenv("RATION_SIM_LATENCY", "context=200ms", 1);
  std::vector<double> plain_starts, shim_starts, plain_true, shim_true;
  for (int i = 0; i < kRounds; ++i) {
    plain_starts.push_back(together(plain, {"/proc/self/exe", "start"}, kStarters));
    shim_starts.push_back(together(shimmed, {"/proc/self/exe", "start"}, kStarters));
  }
  const double ratio = median(shim_starts) / median(plain_starts);
  std::printf(
      "| cuInit + context, 32 processes at once, context 200 ms | %.0f ms | %.0f ms | × %.2f | | ≤ × 1.10 | %s |\n",
      median(plain_starts), median(shim_starts), ratio, ratio <= 1.1 ? "ok" : "MISSED");
  for (int i = 0; i < kRounds; ++i) {
    for (int j = 0; j < 20; ++j) {
      plain_true.push_back(together(plain, {"/bin/true"}, 1));
      shim_true.push_back(together(shimmed, {"/bin/true"}, 1));
    }
  }
  print("/bin/true, a program without CUDA", median(plain_true), median(shim_true),
        median(shim_true) - median(plain_true), 2, "ms");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "measure") == 0) return measure();
  if (argc > 1 && std::strcmp(argv[1], "measure-events") == 0) return measure_events();
  if (argc > 1 && std::strcmp(argv[1], "measure-pair") == 0) return measure_pair();
  if (argc > 1 && std::strcmp(argv[1], "pairs") == 0) return measure_pairs();
  if (argc > 1 && std::strcmp(argv[1], "hold") == 0) return hold_a_slot();
  if (argc > 1 && std::strcmp(argv[1], "start") == 0) return only_start();
  if (argc > 1 && std::strcmp(argv[1], "uuid") == 0) return print_uuid();
  if (argc > 1 && std::strcmp(argv[1], "total") == 0) return print_total();
  if (argc == 4 && std::strcmp(argv[1], "repeat") == 0) return repeat(argv[2], std::atoi(argv[3]));
  const std::string scratch = std::filesystem::temp_directory_path() / ("ration-bench-" + std::to_string(::getpid()));
  std::filesystem::create_directories(scratch);
  if (argc == 3 && std::strcmp(argv[1], "guards") == 0) compare_guards(scratch, argv[2]);
  if (argc >= 2 && std::strcmp(argv[1], "recording") == 0) compare_recording(scratch, argc == 3 ? argv[2] : "");
  if (argc >= 2 && std::strcmp(argv[1], "instructions") == 0) count_instructions(scratch, argc == 3 ? argv[2] : "");
  if (argc == 1 || std::strcmp(argv[1], "calls") == 0) compare_all(scratch);
  // Books lie below /run: what a disk does to a page that is written is not theirs.
  if (argc == 1 || std::strcmp(argv[1], "book") == 0) ration::bench::print_book_rows("/dev/shm");
  std::filesystem::remove_all(scratch);
  return 0;
}
