// The declarations that the parts of the simulated driver share: the process's contexts, its physical blocks, and the
// check at the beginning of each entry.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "driver/cuda_abi.hpp"
#include "faults.hpp"
#include "node.hpp"
#include "turnstile.hpp"

#define RATION_ENTRY extern "C" [[gnu::visibility("default")]] ration::cuda::CUresult

namespace ration::sim {

/// A CUDA context; the handle that programs see is its address.
struct Context {
  int device = 0;
  bool primary = false;
  std::atomic<bool> alive =
      false;         // true while blocks may be taken in the context (under driver().mutex); freed afterwards
  int retained = 0;  // retain count of a primary context; requires the lock of its device
  int record = 0;    // the node's record of the process that made it
};

/// A run of whole granules of one device at an address of this process.
struct Block {
  int device = 0;
  std::uint64_t size = 0;  // the size that the program asked for
  std::uint64_t address = 0;
  std::uint64_t extent = 0;  // bytes mapped
  bool in_window = true;     // the granules lie side by side in the device's window
  Context* context = nullptr;
  Granules granules;
  std::uint64_t published = 0;  // its number as a shared block; 0: no other process may hold it
  bool imported = false;        // true if another process made it
  bool is_code = false;         // code: in host memory, as code shares granules (code.hpp); programs cannot free it
  bool is_array = false;        // the memory of an array, which programs know only by the array's handle
};

/// The lock of this process's driver. lock() waits while the process is locked for a checkpoint. While a thread holds
/// this mutex, the process cannot be locked for a checkpoint.
class DriverMutex {
 public:
  void lock() {
    own_.lock();
    passage_.enter();
  }
  void unlock() {
    passage_.leave();
    own_.unlock();
    if (calls_are_gated) [[unlikely]]
      hold_after();
  }

 private:
  std::mutex own_;
  Passage passage_;
};

/// The state of this process's driver. It is never destroyed, because atexit handlers call the driver.
struct Driver {
  DriverMutex mutex;
  std::atomic<bool> initialised = false;
  std::atomic<bool> forked = false;       // true in the child of a fork, which may not use its parent's driver
  std::vector<int> visible;               // devices of the node by CUDA ordinal
  std::map<std::uint64_t, Block> blocks;  // large allocations and arrays by address
};
Driver& driver();

/// The calling thread's contexts, the current one on top. The stack has no destructor, because programs call the driver
/// from the destructors of their own thread-local objects, in any order.
class ContextStack {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] Context* back() const { return contexts_[count_ - 1]; }
  /// Returns false if the stack is full.
  bool push_back(Context* context) {
    if (count_ == kDeepest) return false;
    contexts_[count_++] = context;
    return true;
  }
  void pop_back() { --count_; }
  void erase(const Context* context) { count_ = std::remove(contexts_, contexts_ + count_, context) - contexts_; }

 private:
  static constexpr std::ptrdiff_t kDeepest = 1024;
  Context* contexts_[kDeepest];
  std::ptrdiff_t count_;
};
extern thread_local constinit ContextStack context_stack;

/// Returns CUDA_SUCCESS, or the error that keeps the calling entry from its work: the driver is not initialised, the
/// process has failed, this thread has locked it for a checkpoint, or a fault is configured (faults.hpp). Waits while
/// another thread or process has locked the process. `bytes` is the size that the call asks for.
inline cuda::CUresult ready(std::uint64_t bytes = 0, const char* function = __builtin_FUNCTION()) {
  if (Turnstile* own = own_process->turnstile.load(std::memory_order_relaxed); own != nullptr) {
    if (own->state.load(std::memory_order_relaxed) != kRunning) [[unlikely]] {
      if (!pass(*own)) return cuda::CUDA_ERROR_ILLEGAL_STATE;
      if (own->state == kFailed) return cuda::CUDA_ERROR_UNKNOWN;
    }
  }
  if (calls_are_gated) [[unlikely]] {
    hold_before(function);
    const Passage passage;  // a slow call counts as in progress until its time has passed
    if (const cuda::CUresult told = gate(function, bytes); told != cuda::CUDA_SUCCESS) return told;
  }
  const Driver& state = driver();
  return !state.initialised || state.forked ? cuda::CUDA_ERROR_NOT_INITIALIZED : cuda::CUDA_SUCCESS;
}
/// Returns the calling thread's context, or null.
Context* current();
/// Returns the node's device for an ordinal of this process, or -1.
int node_device(cuda::CUdevice ordinal);

/// Returns the ordinal in this process of a device of the node.
cuda::CUdevice ordinal_of(int device);

/// Grows the context's stack to `needed` bytes of local memory per thread of a kernel. The limit of the stack does not
/// change.
cuda::CUresult grow_stack(Context* context, std::size_t needed);

/// Takes granules and gives them an address. Returns false if the device is full. Requires driver().mutex.
bool take_block(int device, std::uint64_t size, Block& out);
void give_block(Block& block);
/// Gives the granules of `block` an address, side by side. Returns false if no address range is left.
bool place_block(Block& block);

/// Frees what the driver's pools hold beyond their thresholds. Every synchronisation calls this.
void release_pools();
/// Loads every loaded library into a new context (modules.cpp). Returns false if the device is full.
bool load_libraries(Context* context);
/// Frees the code in a context that ends. Requires driver().mutex.
void clear_code(Context* context);
/// Frees everything in a context.
void clear_context(Context* context);
void forget_limits(Context* context);
bool free_small(std::uint64_t address);
/// Frees memory of cuMemAlloc, small or large, or of an array. Requires driver().mutex.
bool free_plain(std::uint64_t address, bool of_array = false);
void clear_small(Context* context);
/// Frees or unregisters pinned host memory in a context that ends. Requires driver().mutex.
void clear_pinned(Context* context);
bool free_from_pool(std::uint64_t address);
/// Returns the block of whole granules at an address of plain memory, or null.
Block* block_of(std::uint64_t address);
/// Returns the block at an address of memory from a pool that other processes may import, or null.
Block* pool_block_of(std::uint64_t address);
/// Returns the device of a pool that other processes may import, or -1. import_pool() returns the object that
/// represents such a pool in an importing process.
int shareable_pool_device(cuda::CUmemoryPool handle);
cuda::CUmemoryPool import_pool(int device);
/// Releases the imported memory at an address. With `of_pool` it must come from a pool, otherwise from an IPC handle.
/// Returns false if there is no such memory.
bool close_imported(std::uint64_t address, bool of_pool);

/// Allocates plain device memory of the current context for an array, on behalf of the entry `function`.
cuda::CUresult allocate_array(cuda::CUdeviceptr* out, std::uint64_t size, const char* function);
cuda::CUresult free_array(cuda::CUdeviceptr address, const char* function);

}  // namespace ration::sim
