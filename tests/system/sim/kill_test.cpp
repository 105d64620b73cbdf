// The ground truth after SIGKILL. A process runs a script of driver calls and is killed at its first step, at its
// second, and so on (RATION_SIM_KILL), until it comes through; a step lies between any two changes of what processes
// share. After each death the truth is what the living hold, and nothing when all have ended.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor_message.hpp"
#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_managed_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "simulated.hpp"

namespace ration::testing {
namespace {

constexpr std::size_t kTotal = 1024 * kMiB, kContext = 64 * kMiB, kBlock = 4 * kMiB;
constexpr unsigned kMostSteps = 5000;

struct Held {
  std::size_t bytes = 0, on_host = 0;
};
struct Truth {
  std::size_t used = 0;
  std::map<pid_t, Held> processes;
  int status = 0;  // of the program that tells it
};

/// What ration-sim-truth says; `environment`: NAME=VALUE in front of it.
Truth truth(const std::string& environment = "") {
  Truth result;
  std::FILE* told = ::popen((environment + " exec " TRUTH).c_str(), "r");
  char line[256];
  while (std::fgets(line, sizeof line, told) != nullptr) {
    std::size_t total = 0, available = 0, context = 0;
    pid_t pid = 0;
    Held held;
    if (const char* at = std::strstr(line, "total ");
        at != nullptr && std::sscanf(at, "total %zu free %zu", &total, &available) == 2)
      result.used = total - available;
    else if (std::sscanf(line, " pid %d holds %zu of these contexts %zu on the host %zu", &pid, &held.bytes, &context,
                         &held.on_host) == 4)
      result.processes[pid] = held;
  }
  result.status = ::pclose(told);
  return result;
}

/// Everything that is in use is somebody's who lives: of `expected`, exactly these.
void expect_truth(const std::map<pid_t, std::size_t>& expected) {
  const Truth now = truth();
  std::size_t sum = 0;
  std::map<pid_t, std::size_t> held;
  for (const auto& [pid, each] : now.processes) {
    held[pid] = each.bytes;
    sum += each.bytes;
  }
  EXPECT_EQ(held, expected);
  EXPECT_EQ(now.used, sum) << "in use, and nobody's";
}

CUresult enter() {
  CUcontext context = nullptr;
  const CUresult result = CU(cuInit)(0);
  if (result != CUDA_SUCCESS) return result;
  const CUresult retained = CU(cuDevicePrimaryCtxRetain)(&context, 0);
  return retained != CUDA_SUCCESS ? retained : CU(cuCtxSetCurrent)(context);
}

using Script = std::function<void()>;

/// A child that runs the script; one that is to be killed at that step, if it is not 0.
pid_t start(const Script& script, unsigned step = 0) {
  (void)simulated_driver();
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (step != 0) ::setenv("RATION_SIM_KILL", std::to_string(step).c_str(), 1);
  script();
  ::_exit(0);
}

/// False: it was killed by its step.
bool came_through(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return false;
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << "a call of the script failed";
  return true;
}

void need(CUresult result) {
  if (result != CUDA_SUCCESS) ::_exit(1);
}

class KilledAtEveryStep : public ::testing::Test {
 protected:
  void alone(const Script& script) {
    at_every_step([&](unsigned step) {
      const bool through = came_through(start(script, step));
      expect_truth({});
      return through;
    });
  }
  /// Calls `round(step)` for 1, 2, …, until it says that the process came through.
  static void at_every_step(const std::function<bool(unsigned)>& round) {
    for (unsigned step = 1; step < kMostSteps; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      if (round(step)) {
        RecordProperty("steps", static_cast<int>(step));
        EXPECT_GT(step, 5U) << "hardly anything was tried";
        return;
      }
      if (HasFailure()) return;
    }
    FAIL() << "it never came through";
  }
};

// ------------------------------------------------------------------------------------------- what one process holds

CUdeviceptr taken(std::size_t size) {
  CUdeviceptr address = 0;
  need(CU(cuMemAlloc_v2)(&address, size));
  need(CU(cuMemsetD8_v2)(address, 1, size));
  return address;
}

CUmemGenericAllocationHandle created(std::size_t size) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  need(CU(cuMemCreate)(&handle, size, &properties, 0));
  return handle;
}

CUdeviceptr mapped(CUmemGenericAllocationHandle handle, std::size_t size) {
  CUdeviceptr address = 0;
  need(CU(cuMemAddressReserve)(&address, size, 0, 0, 0));
  need(CU(cuMemMap)(address, size, 0, handle, 0));
  return address;
}

void plain_memory() {
  need(enter());
  const CUdeviceptr large = taken(kBlock), small = taken(1000);
  need(CU(cuMemFree_v2)(large));
  (void)taken(2 * kBlock);
  need(CU(cuMemFree_v2)(small));
}

void pools() {
  need(enter());
  CUdeviceptr first = 0, second = 0;
  need(CU(cuMemAllocAsync)(&first, kBlock, nullptr));
  need(CU(cuMemAllocAsync)(&second, kBlock, nullptr));
  need(CU(cuMemFreeAsync)(first, nullptr));
  need(CU(cuMemFreeAsync)(second, nullptr));
  need(CU(cuCtxSynchronize)());
  need(CU(cuMemAllocAsync)(&first, kBlock, nullptr));
}

void physical_memory() {
  need(enter());
  const auto handle = created(kBlock);
  const CUdeviceptr address = mapped(handle, kBlock);
  need(CU(cuMemRelease)(handle));
  need(CU(cuMemUnmap)(address, kBlock));
  (void)mapped(created(kBlock), kBlock);
}

void contexts_and_managed_memory() {
  need(enter());
  CUcontext context = nullptr;
  CUdeviceptr managed = 0;
  need(CU(cuCtxCreate_v2)(&context, 0, 0));
  need(CU(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * kMiB));
  need(CU(cuMemAllocManaged)(&managed, kBlock, 1));
  need(CU(cuMemsetD8_v2)(managed, 1, kBlock));
  need(CU(cuMemFree_v2)(managed));
  need(CU(cuMemAllocManaged)(&managed, kBlock, 1));
  need(CU(cuMemPrefetchAsync)(managed, kBlock, 0, nullptr));
  need(CU(cuCtxDestroy_v2)(context));
}

void graphs() {
  need(enter());
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = kBlock;
  need(CU(cuGraphCreate)(&graph, 0));
  need(CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &parameters));
  need(CU(cuGraphInstantiateWithFlags)(&executable, graph, 0));
  need(CU(cuGraphLaunch)(executable, nullptr));
  need(CU(cuMemFreeAsync)(parameters.dptr, nullptr));
  need(CU(cuDeviceGraphMemTrim)(0));
}

TEST_F(KilledAtEveryStep, APlainBlockIsGivenBack) { alone(plain_memory); }
TEST_F(KilledAtEveryStep, PoolsAreGivenBack) { alone(pools); }
TEST_F(KilledAtEveryStep, PhysicalMemoryIsGivenBack) { alone(physical_memory); }
TEST_F(KilledAtEveryStep, ContextsAndManagedMemoryAreGivenBack) { alone(contexts_and_managed_memory); }
TEST_F(KilledAtEveryStep, WhatGraphsTookIsGivenBack) { alone(graphs); }

// -------------------------------------------------------------------------------------------- what several processes
// hold

struct Message {
  int kind = 0;  // kDescriptor, kHandle, or what a test asks
  std::size_t bytes = 0;
  CUipcMemHandle handle{};
};
constexpr int kDescriptor = 1, kHandle = 2, kReady = 3, kRelease = 4;

/// Two processes and a socket between them; the other end of each pair closes with the process.
struct Pair {
  int one = -1, other = -1;
  Pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    one = ends[0], other = ends[1];
  }
  ~Pair() { close(); }
  void close() {
    for (int* end : {&one, &other}) {
      if (*end >= 0) ::close(*end);
      *end = -1;
    }
  }
};

/// Exports a block by a descriptor and one by an IPC handle.
void send_blocks(int socket) {
  const auto handle = created(kBlock);
  int descriptor = -1;
  need(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  (void)send_message(socket, Message{kDescriptor, kBlock, {}}, descriptor);
  ::close(descriptor);
  Message message{kHandle, 2 * kBlock, {}};
  const CUdeviceptr block = taken(2 * kBlock);
  need(CU(cuIpcGetMemHandle)(&message.handle, block));
  (void)send_message(socket, message, -1);
  need(CU(cuMemRelease)(handle));
  need(CU(cuMemFree_v2)(block));
}

struct Imports {
  std::vector<CUmemGenericAllocationHandle> handles;
  std::vector<CUdeviceptr> opened;
  std::size_t bytes = 0;

  void take(const Message& message, int descriptor) {
    if (message.kind == kDescriptor) {
      CUmemGenericAllocationHandle handle = 0;
      const CUresult result =
          CU(cuMemImportFromShareableHandle)(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      ::close(descriptor);
      if (result == CUDA_SUCCESS) handles.push_back(handle), bytes += message.bytes;
    } else {
      CUdeviceptr address = 0;
      if (CU(cuIpcOpenMemHandle_v2)(&address, message.handle, 1) != CUDA_SUCCESS) return;
      opened.push_back(address);
      bytes += message.bytes;
    }
  }
  void give() {
    for (const auto handle : handles) need(CU(cuMemRelease)(handle));
    for (const CUdeviceptr address : opened) need(CU(cuIpcCloseMemHandle)(address));
    handles.clear(), opened.clear(), bytes = 0;
  }
};

/// Takes what comes until the sender is gone, says how much it has, gives it back when it is told, and says so.
void importer(int socket, int control) {
  need(enter());
  Imports imports;
  Message message;
  for (int descriptor = -1; receive_message(socket, message, descriptor); descriptor = -1)
    imports.take(message, descriptor);
  for (int none = -1;;) {
    (void)send_message(control, Message{kReady, imports.bytes, {}}, -1);
    if (!receive_message(control, message, none)) return;
    imports.give();
  }
}

/// Exports, and goes on owning or not, as it is told: released at kRelease, ends when the control socket closes.
void exporter(int socket, int control) {
  need(enter());
  const auto handle = created(kBlock);
  int descriptor = -1, none = -1;
  need(CU(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  Message shared{kHandle, 2 * kBlock, {}}, message;
  const CUdeviceptr block = taken(2 * kBlock);
  need(CU(cuIpcGetMemHandle)(&shared.handle, block));
  (void)send_message(socket, Message{kDescriptor, kBlock, {}}, descriptor);
  (void)send_message(socket, shared, -1);
  ::close(descriptor);
  std::size_t left = 3 * kBlock;
  for (;;) {
    (void)send_message(control, Message{kReady, left, {}}, -1);
    if (!receive_message(control, message, none)) return;
    need(CU(cuMemRelease)(handle));
    need(CU(cuMemFree_v2)(block));
    left = 0;
  }
}

/// A child that exports its blocks through `blocks` and does what `control` asks.
pid_t start_exporter(Pair& blocks, Pair& control) {
  return start([&] {
    ::close(blocks.other), ::close(control.other);
    exporter(blocks.one, control.one);
  });
}

/// What the process at the other end says that it holds.
std::size_t ready(int control) {
  Message message;
  int none = -1;
  EXPECT_TRUE(receive_message(control, message, none) && message.kind == kReady);
  return message.bytes;
}

TEST_F(KilledAtEveryStep, WhatAnExporterLeavesIsTheImportersAndThenNobodys) {
  at_every_step([](unsigned step) {
    Pair blocks, control;
    const pid_t receiver = start([&] {
      ::close(blocks.other), ::close(control.other);
      importer(blocks.one, control.one);
    });
    const pid_t victim = start(
        [&] {
          ::close(blocks.one), ::close(control.other);
          need(enter());
          send_blocks(blocks.other);
        },
        step);
    blocks.close();
    const bool through = came_through(victim);
    expect_truth({{receiver, kContext + ready(control.other)}});
    (void)send_message(control.other, Message{kRelease, 0, {}}, -1);
    EXPECT_EQ(ready(control.other), 0U);
    expect_truth({{receiver, kContext}});
    control.close();
    EXPECT_TRUE(came_through(receiver));
    expect_truth({});
    return through;
  });
}

/// Imports what comes, maps it, and gives it back. With `at_end` it has done so when its owner has ended.
void passing_importer(int socket, const std::function<void()>& in_between) {
  need(enter());
  Imports imports;
  Message message;
  for (int i = 0, descriptor = -1; i < 2 && receive_message(socket, message, descriptor); ++i)
    imports.take(message, descriptor);
  CUdeviceptr address = 0;
  for (const auto handle : imports.handles) address = mapped(handle, kBlock);
  in_between();
  need(CU(cuMemUnmap)(address, kBlock));
  imports.give();
}

TEST_F(KilledAtEveryStep, WhatAnImporterLeavesIsItsOwnersAndThenNobodys) {
  at_every_step([](unsigned step) {
    Pair blocks, control;
    const pid_t owner = start_exporter(blocks, control);
    EXPECT_EQ(ready(control.other), 3 * kBlock);
    const pid_t victim = start(
        [&] {
          ::close(blocks.one), ::close(control.other);
          passing_importer(blocks.other, [] {});
        },
        step);
    const bool through = came_through(victim);
    expect_truth({{owner, kContext + 3 * kBlock}});
    blocks.close();
    (void)send_message(control.other, Message{kRelease, 0, {}}, -1);
    EXPECT_EQ(ready(control.other), 0U);
    expect_truth({{owner, kContext}});
    control.close();
    EXPECT_TRUE(came_through(owner));
    return through;
  });
}

TEST_F(KilledAtEveryStep, AnImporterWhoseOwnerWasKilledLeavesNothing) {
  at_every_step([](unsigned step) {
    Pair blocks, control;
    const pid_t owner = start_exporter(blocks, control);
    EXPECT_EQ(ready(control.other), 3 * kBlock);
    const pid_t victim = start(
        [&] {
          ::close(blocks.one), ::close(control.other);
          passing_importer(blocks.other, [&] {
            ::kill(owner, SIGKILL);
            char byte = 0;  // another's child: its socket shows its end
            while (::recv(blocks.other, &byte, 1, 0) > 0) {
            }
          });
        },
        step);
    ::close(blocks.one), blocks.one = -1;
    const bool through = came_through(victim);
    blocks.close();
    ::kill(owner, SIGKILL);
    ::waitpid(owner, nullptr, 0);
    expect_truth({});
    return through;
  });
}

TEST_F(KilledAtEveryStep, WhoeverClearsUpAfterADeadProcess) {
  at_every_step([](unsigned step) {
    Pair blocks, control, unread;
    const pid_t owner = start_exporter(blocks, control);
    EXPECT_EQ(ready(control.other), 3 * kBlock);
    const pid_t dead = start([&] {
      need(enter());
      (void)taken(kBlock);
      Message message;
      Imports imports;
      for (int i = 0, descriptor = -1; i < 2 && receive_message(blocks.other, message, descriptor); ++i)
        imports.take(message, descriptor);
      send_blocks(unread.one);
      ::kill(::getpid(), SIGKILL);
    });
    blocks.close();
    EXPECT_FALSE(came_through(dead));
    control.close();
    EXPECT_TRUE(came_through(owner));
    unread.close();  // and with it the last descriptors
    const bool through = truth("RATION_SIM_KILL=" + std::to_string(step)).status == 0;
    expect_truth({});
    return through;
  });
}

// ------------------------------------------------------------------------------------------------------- checkpoints

TEST_F(KilledAtEveryStep, WhoeverMovesAProcessToTheHostAndBack) {
  at_every_step([](unsigned step) {
    Pair control;
    const pid_t target = start([&] {
      ::close(control.other);
      need(enter());
      (void)taken(kBlock);
      Message message;
      int none = -1;
      (void)send_message(control.one, Message{kReady, kBlock, {}}, -1);
      (void)receive_message(control.one, message, none);
    });
    EXPECT_EQ(ready(control.other), kBlock);
    const pid_t mover = start(
        [&] {
          CUcheckpointLockArgs lock{};
          need(CU(cuCheckpointProcessLock)(target, &lock));
          need(CU(cuCheckpointProcessCheckpoint)(target, nullptr));
          need(CU(cuCheckpointProcessRestore)(target, nullptr));
          need(CU(cuCheckpointProcessUnlock)(target, nullptr));
        },
        step);
    const bool through = came_through(mover);
    const Truth now = truth();
    const Held held = now.processes.contains(target) ? now.processes.at(target) : Held{};
    EXPECT_EQ(held.bytes + held.on_host, kContext + kBlock);
    EXPECT_TRUE(held.bytes == 0 || held.on_host == 0) << "half of it was moved";
    EXPECT_EQ(now.used, held.bytes);
    ::kill(target, SIGKILL);
    ::waitpid(target, nullptr, 0);
    expect_truth({});
    return through;
  });
}

// ------------------------------------------------------------------------------------------------------------- storms

/// Random calls of every kind, with what others send.
void random_calls(std::mt19937& random, int to, int from) {
  need(enter());
  Imports imports;
  std::vector<CUdeviceptr> blocks;
  for (int call = 0; call < 40; ++call) {
    Message message;
    CUdeviceptr address = 0;
    switch (random() % 8) {
      case 0:
        if (CU(cuMemAlloc_v2)(&address, 1 + random() % (8 * kMiB)) == CUDA_SUCCESS) blocks.push_back(address);
        break;
      case 1:
        if (CU(cuMemAllocAsync)(&address, 1 + random() % (8 * kMiB), nullptr) == CUDA_SUCCESS)
          blocks.push_back(address);
        break;
      case 2:
        if (blocks.empty()) break;
        need(CU(cuMemFree_v2)(blocks.back()));
        blocks.pop_back();
        break;
      case 3:
        physical_memory();
        break;
      case 4:
        send_blocks(to);
        break;
      case 5: {
        pollfd readable{from, POLLIN, 0};
        int descriptor = -1;
        if (::poll(&readable, 1, 0) == 1 && receive_message(from, message, descriptor))
          imports.take(message, descriptor);
        break;
      }
      case 6:
        imports.give();
        break;
      default:
        contexts_and_managed_memory();
    }
  }
}

TEST_F(KilledAtEveryStep, NothingIsLostInAStormOfKills) {
  constexpr int kRounds = 10, kProcesses = 5;
  for (unsigned round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::mt19937 random(round);
    std::vector<Pair> pairs(kProcesses);
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
      const auto seed = static_cast<unsigned>(random());
      children.push_back(start(
          [&] {
            std::mt19937 own(seed);
            random_calls(own, pairs[static_cast<std::size_t>(i)].one,
                         pairs[static_cast<std::size_t>((i + 1) % kProcesses)].other);
          },
          1 + static_cast<unsigned>(random() % 1000)));
    }
    int status = 0;
    for (const pid_t child : children) {
      ::waitpid(child, &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WIFEXITED(status));
      const Truth now = truth();
      std::size_t sum = 0;
      for (const auto& [pid, held] : now.processes) sum += held.bytes;
      EXPECT_LE(sum, now.used) << "what only descriptors hold is in use, and nobody's";
    }
    pairs.clear();
    expect_truth({});
    if (HasFailure()) return;
  }
}

// ------------------------------------------------------------------------------------------------------------ threads

TEST(ThreadsAtTheEnd, NoProgramCrashesThatEndsWhileItsThreadsCall) {
  (void)simulated_driver();
  for (const char* kind : {"plain", "small", "pool", "managed", "contexts"}) {
    SCOPED_TRACE(kind);
    for (int i = 0; i < 20; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::execl(ENDING, ENDING, SIM_FOLDER "/libcuda.so.1", kind, nullptr);
        ::_exit(127);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      ASSERT_EQ(WEXITSTATUS(status), 0);
    }
    expect_truth({});
  }
}

TEST(TwoThreads, LoseNothingByMappingAndUnmappingOneAddress) {
  const pid_t child = start([] {
    need(enter());
    CUcontext context = nullptr;
    CUdeviceptr address = 0;
    std::size_t before = 0, after = 0, total = 0;
    need(CU(cuCtxGetCurrent)(&context));
    need(CU(cuMemAddressReserve)(&address, kBlock, 0, 0, 0));
    need(CU(cuMemGetInfo_v2)(&before, &total));
    std::atomic<bool> going{true};
    std::thread other([&] {
      CU(cuCtxSetCurrent)(context);
      while (going) CU(cuMemUnmap)(address, kBlock);
    });
    for (int round = 0; round < 200; ++round) {
      const auto handle = created(kBlock);
      for (int i = 0; i < 10; ++i) (void)CU(cuMemMap)(address, kBlock, 0, handle, 0);
      need(CU(cuMemRelease)(handle));
    }
    going = false;
    other.join();
    (void)CU(cuMemUnmap)(address, kBlock);
    need(CU(cuMemGetInfo_v2)(&after, &total));
    if (before != after) ::_exit(2);
  });
  EXPECT_TRUE(came_through(child)) << "or something was lost";
  expect_truth({});
}

}  // namespace
}  // namespace ration::testing
