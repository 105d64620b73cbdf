// The probe's ways that need a second process: memory that another process keeps alive, that other process itself,
// checkpoints, and calls by a process outside the workload.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <sstream>
#include <string>

#include "driver/cuda_copy_abi.hpp"
#include "driver/cuda_share_abi.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/parcels.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

std::vector<int> descriptors;
std::vector<CUmemGenericAllocationHandle> imported;

/// Creates, exports and releases memory, so that only the descriptor is left.
CUresult export_and_release(std::size_t size, int& descriptor) {
  const auto properties = shareable();
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult result = DRIVER(cuMemCreate)(&handle, size, &properties, 0); result != CUDA_SUCCESS) return result;
  const CUresult result =
      DRIVER(cuMemExportToShareableHandle)(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  DRIVER(cuMemRelease)(handle);
  return result;
}

/// A child `ration-workload open`, which opens every handle that it is sent.
class Holder {
 public:
  bool start() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return false;
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (const int end : {to[0], to[1], from[0], from[1]}) ::close(end);
      ::execl("/proc/self/exe", "ration-workload", "open", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
    return true;
  }
  [[nodiscard]] bool running() const { return child_ > 0; }
  [[nodiscard]] pid_t pid() const { return child_; }
  CUresult open(const CUipcMemHandle& handle) const {
    int result = CUDA_ERROR_UNKNOWN;
    if (::write(to_, &handle, sizeof handle) != sizeof handle || ::read(from_, &result, sizeof result) != sizeof result)
      return CUDA_ERROR_UNKNOWN;
    return static_cast<CUresult>(result);
  }
  void stop() {
    if (child_ < 0) return;
    ::close(to_);
    ::close(from_);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};
Holder holder;

CUresult share_and_free(std::size_t size) {
  if (!holder.running() && !holder.start()) return CUDA_ERROR_UNKNOWN;
  CUdeviceptr pointer = 0;
  if (const CUresult result = DRIVER(cuMemAlloc_v2)(&pointer, size); result != CUDA_SUCCESS) return result;
  CUipcMemHandle handle;
  CUresult result = DRIVER(cuIpcGetMemHandle)(&handle, pointer);
  if (result == CUDA_SUCCESS) result = holder.open(handle);
  DRIVER(cuMemFree_v2)(pointer);
  return result;
}

/// A child `ration-workload give`, whose standard output is the other end of a socket.
class Giver {
 public:
  Giver(Form form, std::size_t size) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return;
    const char* name = form == Form::kIpc ? "ipc" : form == Form::kPool ? "pool" : "descriptor";
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(pair[1], 1);
      ::execl("/proc/self/exe", "ration-workload", "give", std::to_string(size >> 20).c_str(), "--as", name, nullptr);
      ::_exit(127);
    }
    ::close(pair[1]);
    socket_ = pair[0];
  }
  /// Waits until the child has sent something or has ended.
  void wait() const {
    pollfd waited{socket_, POLLIN, 0};
    ::poll(&waited, 1, -1);
  }
  void kill() const {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    std::size_t available = 0, total = 0;
    DRIVER(cuMemGetInfo_v2)(&available, &total);  // lets the simulator reclaim the memory of dead processes
  }
  [[nodiscard]] int socket() const { return socket_; }

 private:
  pid_t child_ = -1;
  int socket_ = -1;
};

/// The moment at which the process that is charged for the memory is killed.
enum class Killed { kAfterImport, kBeforeImport };

/// Opens memory that a child took. Kills the child, which was charged for the memory, before or after that.
template <Form form, Killed killed>
CUresult take_over(std::size_t size) {
  const Giver giver(form, size);
  giver.wait();
  Parcel parcel;
  if (killed == Killed::kBeforeImport) giver.kill();
  const bool came = receive(giver.socket(), parcel);
  const CUresult result = came ? import_memory(parcel) : CUDA_ERROR_OUT_OF_MEMORY;
  if (killed == Killed::kAfterImport) giver.kill();
  ::close(giver.socket());
  return result;
}

std::vector<int> sockets;

/// Leaves a descriptor of memory in a socket: a child sends the descriptor and is then killed, and no process receives
/// it.
CUresult leave_in_flight(std::size_t size) {
  const Giver giver(Form::kDescriptor, size);
  giver.wait();
  giver.kill();
  sockets.push_back(giver.socket());
  char byte = 0;
  return ::recv(giver.socket(), &byte, 1, MSG_PEEK) > 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void drop_taken_over() {
  drop_imports();
  look_for_the_dead();
}

std::vector<CUdeviceptr> pointers;

CUresult take(std::size_t size) {
  CUdeviceptr pointer = 0;
  const CUresult result = DRIVER(cuMemAlloc_v2)(&pointer, size);
  if (result == CUDA_SUCCESS) pointers.push_back(pointer);
  return result;
}

CUresult take_managed(std::size_t size) {
  CUdeviceptr pointer = 0;
  const CUresult result = DRIVER(cuMemAllocManaged)(&pointer, size, 1);
  if (result == CUDA_SUCCESS) pointers.push_back(pointer);
  return result;
}

void free_pointers() {
  for (const CUdeviceptr pointer : pointers) DRIVER(cuMemFree_v2)(pointer);
  pointers.clear();
}

/// Makes a child that goes on in place of this process, which ends. The clone system call makes the child, so no fork
/// handler of the C library runs.
void go_on_in_a_child() {
  int ended[2];
  if (::pipe(ended) != 0) return;
  if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) != 0) ::_exit(0);
  ::close(ended[1]);
  char none = 0;
  while (::read(ended[0], &none, 1) < 0) {
  }
  ::close(ended[0]);
}

CUresult to_the_host() {
  const CUresult result = DRIVER(cuCheckpointProcessLock)(::getpid(), nullptr);
  return result == CUDA_SUCCESS ? DRIVER(cuCheckpointProcessCheckpoint)(::getpid(), nullptr) : result;
}
CUresult to_the_device() {
  const CUresult result = DRIVER(cuCheckpointProcessRestore)(::getpid(), nullptr);
  return result == CUDA_SUCCESS ? DRIVER(cuCheckpointProcessUnlock)(::getpid(), nullptr) : result;
}

}  // namespace

std::vector<Way> checkpointed_ways() {
  return {{"checkpointed",
           [](std::size_t n) {  // moves all memory to the host and back after every block
             if (const CUresult result = take(n); result != CUDA_SUCCESS) return result;
             const CUresult result = to_the_host();
             return result == CUDA_SUCCESS ? to_the_device() : result;
           },
           free_pointers, 0, 1, "cuCheckpointProcessCheckpoint"}};
}

std::vector<Way> shared_ways() {
  return {
      {"vmm-exported",
       [](std::size_t n) {
         int descriptor = -1;
         const CUresult result = export_and_release(n, descriptor);
         if (result == CUDA_SUCCESS) descriptors.push_back(descriptor);
         return result;
       },
       [] {
         for (const int one : descriptors) ::close(one);
         descriptors.clear();
       }},
      {"vmm-own-import",
       [](std::size_t n) {
         int descriptor = -1;
         if (const CUresult result = export_and_release(n, descriptor); result != CUDA_SUCCESS) return result;
         CUmemGenericAllocationHandle handle = 0;
         const CUresult result = DRIVER(cuMemImportFromShareableHandle)(
             &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
         ::close(descriptor);
         if (result == CUDA_SUCCESS) imported.push_back(handle);
         return result;
       },
       [] {
         for (const auto handle : imported) DRIVER(cuMemRelease)(handle);
         imported.clear();
       }},
      {"ipc-freed", share_and_free,
       [] {
         holder.stop();
         look_for_the_dead();
       }},
      {"ipc-owner-killed", take_over<Form::kIpc, Killed::kAfterImport>, drop_taken_over},
      {"vmm-owner-killed", take_over<Form::kDescriptor, Killed::kAfterImport>, drop_taken_over},
      {"vmm-of-the-dead", take_over<Form::kDescriptor, Killed::kBeforeImport>, drop_taken_over},
      {"vmm-in-flight", leave_in_flight,
       [] {
         for (const int one : sockets) ::close(one);
         sockets.clear();
         look_for_the_dead();
       }},
      {"pool-owner-killed", take_over<Form::kPool, Killed::kAfterImport>, drop_taken_over},
  };
}

int keep_open() {
  CUipcMemHandle handle;
  while (::read(0, &handle, sizeof handle) == sizeof handle) {
    CUdeviceptr pointer = 0;
    const int result = DRIVER(cuIpcOpenMemHandle_v2)(&pointer, handle, 1);
    if (::write(1, &result, sizeof result) != sizeof result) return 1;
  }
  return 0;
}

int keep(std::size_t size, bool shared) {
  std::vector<std::uint64_t> written(size / sizeof(std::uint64_t)), read(written.size());
  std::uint64_t number = 1;
  for (std::uint64_t& word : written) word = number *= 0x9e3779b97f4a7c15U;
  CUdeviceptr memory = 0;
  CUipcMemHandle handle;
  const bool there = DRIVER(cuMemAlloc_v2)(&memory, size) == CUDA_SUCCESS &&
                     DRIVER(cuMemcpyHtoD_v2)(memory, written.data(), size) == CUDA_SUCCESS &&
                     (!shared || (DRIVER(cuIpcGetMemHandle)(&handle, memory) == CUDA_SUCCESS && holder.start() &&
                                  holder.open(handle) == CUDA_SUCCESS));
  if (!there) return 1;
  std::cout << "holds " << ::getpid();
  if (shared) std::cout << " " << holder.pid();
  std::cout << std::endl;
  std::string line;
  if (!std::getline(std::cin, line)) return 1;
  const bool kept = DRIVER(cuMemcpyDtoH_v2)(read.data(), memory, size) == CUDA_SUCCESS && read == written &&
                    (!shared || holder.open(handle) == CUDA_SUCCESS) && DRIVER(cuMemFree_v2)(memory) == CUDA_SUCCESS &&
                    DRIVER(cuMemAlloc_v2)(&memory, size) == CUDA_SUCCESS;
  std::cout << (kept ? "kept" : "lost") << std::endl;
  holder.stop();
  return kept ? 0 : 1;
}

int give(std::size_t size, const std::string& form) {
  Parcel parcel;
  Form as{};
  if (!form_named(form, as) || export_memory(as, size, parcel) != CUDA_SUCCESS || !send(1, parcel)) return 1;
  if (parcel.descriptor >= 0) ::close(parcel.descriptor);
  ::pause();
  return 0;
}

int obey(int socket) {
  CUcontext own_context = nullptr;
  std::vector<Parcel> inbox;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string order;
    std::size_t mib = 0;
    words >> order >> mib;
    CUresult result = CUDA_SUCCESS;
    if (order == "take")
      result = take(mib << 20);
    else if (order == "managed")
      result = take_managed(mib << 20);
    else if (order == "heap")
      result = DRIVER(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, mib << 20);
    else if (order == "context")
      result = DRIVER(cuCtxCreate_v2)(&own_context, 0, 0);
    else if (order == "leave")
      result = DRIVER(cuCtxDestroy_v2)(own_context);
    else if (Form form{}; form_named(order, form)) {
      Parcel parcel;
      result = export_memory(form, mib << 20, parcel);
      if (result == CUDA_SUCCESS && !send(socket, parcel)) result = CUDA_ERROR_UNKNOWN;
      if (parcel.descriptor >= 0) ::close(parcel.descriptor);
    } else if (order == "receive") {
      result = receive(socket, inbox.emplace_back()) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    } else if (order == "import") {
      for (Parcel& parcel : inbox) {
        if (const CUresult one = import_memory(parcel); one != CUDA_SUCCESS) result = one;
      }
      inbox.clear();
    } else if (order == "drop")
      drop_exports();
    else if (order == "let-go")
      drop_imports();
    else if (order == "checkpoint")
      result = to_the_host();
    else if (order == "restore")
      result = to_the_device();
    else if (order == "outlive")
      go_on_in_a_child();
    else
      free_pointers();
    std::cout << static_cast<int>(result) << std::endl;
  }
  return 0;
}

}  // namespace ration::workload
