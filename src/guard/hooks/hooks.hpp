// The interface of each kind of memory to the other hooks. Used inside guard/hooks only.
#pragma once

#include "driver/cuda_abi.hpp"
#include "guard/hooks/governor.hpp"

/// Marks a definition that has the driver's own name.
#define RATION_HOOK extern "C" [[gnu::visibility("default")]]

// Declares a hook whose code other libraries patch in a running program. Such a hook is called through an entry of its
// own (patched_entries.S).
#define RATION_PATCHED(name) extern "C" ration::cuda::name##_t name __asm__("ration_hook_" #name);
#include "guard/patched_names.inc"
#undef RATION_PATCHED

namespace ration::guard {

/// Reads what the driver's pools reserve and corrects the book. Called before a denial and after synchronisation.
void refresh_pools() noexcept;
/// Makes the pools of this process give back unused memory.
void trim_pools() noexcept;
/// Corrects the book after a synchronisation if stream-ordered memory was freed since the last one. Cheap otherwise.
void pools_after_synchronisation() noexcept;
/// Trims if the daemon has asked for unused memory since this process last trimmed for it. Does nothing while `stream`,
/// the stream of the program's call, is captured. Must be called without a lock of a hook. Cheap if the daemon has not
/// asked.
void trim_if_asked(cuda::CUstream stream = nullptr) noexcept;
/// Frees memory of a pool that the program passes to an ordinary free function, and sets `result` to the driver's
/// result. Returns false if the pointer does not belong to a pool.
[[nodiscard]] bool free_pool_pointer(cuda::CUdeviceptr address, cuda::CUresult& result) noexcept;

/// Frees plain memory by `call_real(address, given)`. The memory stays charged until `stream` reaches the call. Returns
/// false if no plain memory has this address.
[[nodiscard]] bool free_block_on_stream(cuda::CUdeviceptr address, cuda::CUstream stream,
                                        cuda::cuMemFreeAsync_t* call_real, cuda::CUstream given,
                                        cuda::CUresult& result) noexcept;
/// Refunds plain memory that streams have freed by now. Returns true if streams have yet to free some memory.
[[nodiscard]] bool refund_what_streams_freed() noexcept;

/// Takes managed memory by the workload's policy (managed.cpp).
[[nodiscard]] cuda::CUresult take_managed(ManagedPolicy policy, cuda::CUdeviceptr& address, std::size_t size,
                                          unsigned int flags, const Place& place) noexcept;
/// Frees managed memory, and works otherwise like free_pool_pointer().
[[nodiscard]] bool free_managed_block(cuda::CUdeviceptr address, cuda::CUresult& result) noexcept;
/// Moves managed memory to the host, if the policy allows it, until `needed` bytes fit into the account.
void evict_managed(std::uint32_t account, Bytes needed) noexcept;

/// Enters a context that was made unseen by any hook: by a private function of the driver (ZLUDA's dark_api lists one),
/// or as a green context. The context exists already, so its known cost is charged even past the limit.
void enter_unseen_context(cuda::CUcontext context, cuda::CUdevice device, std::uint32_t account) noexcept;
/// Returns the number of a context in this process. Unlike the driver's handles, a number is never reused.
[[nodiscard]] std::uint64_t context_number(cuda::CUcontext context) noexcept;
/// Returns true if a living context has that number.
[[nodiscard]] bool context_lives(std::uint64_t number) noexcept;
/// Moves blocks that were entered under a context's handle, because the context had no number yet, to that number.
void renumber_blocks(std::uint64_t handle, std::uint64_t number) noexcept;
void renumber_pinned(std::uint64_t handle, std::uint64_t number) noexcept;
void adopt_modules(std::uint64_t handle, std::uint64_t number) noexcept;

/// A context of this process as contexts.cpp knows it.
struct LivingContext {
  std::uint64_t number = 0;
  cuda::CUcontext handle = nullptr;
  cuda::CUdevice device = -1;
  std::uint32_t account = kNoAccount;
};
inline constexpr std::uint64_t kAllContexts = ~std::uint64_t{0};
/// Finds the context with the lowest number above `number`. Returns false if there is none.
[[nodiscard]] bool next_context(std::uint64_t number, LivingContext& out) noexcept;
/// Returns the highest number given to a context so far.
[[nodiscard]] std::uint64_t last_context() noexcept;

/// A scope in which no other thread loads or unloads a library, except while the calling thread sleeps for memory. So
/// the charge of a context that is made in this scope includes all libraries (libraries.cpp).
class CodeOfNewContext : LeftWhileAsleep {
 public:
  CodeOfNewContext() noexcept;
  ~CodeOfNewContext();
  /// Returns what the libraries take in a context of the device.
  [[nodiscard]] Bytes size(cuda::CUdevice device) const noexcept;

 private:
  explicit CodeOfNewContext(bool nested) noexcept;
  bool nested_;
};

/// Forgets everything that lived in the context with that number. `now` is the new number of the context if the context
/// was reset and lives on, and 0 otherwise. Memory that another thread took in the context after the reset stays.
void blocks_of_context_are_gone(std::uint64_t context, std::uint64_t now) noexcept;
void arrays_of_context_are_gone(std::uint64_t context) noexcept;
void modules_of_context_are_gone(std::uint64_t context) noexcept;
void managed_of_context_is_gone(std::uint64_t context, std::uint64_t now) noexcept;
void pinned_of_context_is_gone(std::uint64_t context, std::uint64_t now) noexcept;

/// A scope in which no other thread changes which physical memory a handle or an address stands for. The scope covers a
/// driver call that changes this or keeps such memory alive, and the guard's entry for that call. So the entry concerns
/// the memory that the driver used. No thread waits for memory in this scope.
class VirtualMemoryChange {
 public:
  VirtualMemoryChange() noexcept;
  ~VirtualMemoryChange();
  VirtualMemoryChange(const VirtualMemoryChange&) = delete;
  VirtualMemoryChange& operator=(const VirtualMemoryChange&) = delete;
};

/// Keeps the memory behind a handle charged. Returns the memory's number, or 0 if no hook saw how the memory was made.
[[nodiscard]] std::uint64_t hold_physical_of(cuda::CUmemGenericAllocationHandle handle) noexcept;
/// Keeps the memory mapped at an address charged, like hold_physical_of().
[[nodiscard]] std::uint64_t hold_physical_at(cuda::CUdeviceptr address) noexcept;
void hold_physical(std::uint64_t number) noexcept;
void let_go_physical(std::uint64_t number) noexcept;
/// Returns the account that is charged for the memory, or kNoAccount.
[[nodiscard]] std::uint32_t account_of_physical(std::uint64_t number) noexcept;

/// Returns the number of the newest mapping into any array; mappings are numbered in order. A caller that ends an array
/// reads this number before it does so: the array's mappings up to this number end with the array, later ones do not.
[[nodiscard]] std::uint64_t last_array_mapping() noexcept;
void array_mappings_are_gone(std::uint64_t array, std::uint64_t last) noexcept;

}  // namespace ration::guard
