// What the hooks of one kind of memory offer to the others. Used inside shim/hooks only.
#pragma once

#include "driver/cuda_abi.hpp"
#include "shim/hooks/governor.hpp"

/// Marks a definition that stands under the driver's own name.
#define RATION_HOOK extern "C" [[gnu::visibility("default")]]

// Those that other libraries replace in a running program stand behind an entry of their own (patched_entries.S).
#define RATION_PATCHED(name) extern "C" ration::cuda::name##_t name __asm__("ration_hook_" #name);
#include "shim/patched_names.inc"
#undef RATION_PATCHED

namespace ration::shim {

/// Reads what the driver's pools reserve and corrects the book. Called before a denial and after synchronisation.
void refresh_pools() noexcept;
/// Has the pools of this process give back what they hold and nobody uses.
void trim_pools() noexcept;
/// Corrects the book after a synchronisation, if async memory was freed since the last one. Cheap when none was.
void pools_after_synchronisation() noexcept;
/// Frees a pointer that came from a pool and is freed like any other; `result` is the driver's. False: it is not one.
[[nodiscard]] bool free_pool_pointer(cuda::CUdeviceptr address, cuda::CUresult& result) noexcept;

/// Frees plain memory by `call_real(address, told)`, which does so when `stream` comes to it: charged till then. False:
/// no plain memory stands there.
[[nodiscard]] bool free_block_on_stream(cuda::CUdeviceptr address, cuda::CUstream stream,
                                        cuda::cuMemFreeAsync_t* call_real, cuda::CUstream told,
                                        cuda::CUresult& result) noexcept;
/// Refunds plain memory that streams have freed since. True: some is still to be freed.
[[nodiscard]] bool refund_what_streams_freed() noexcept;

/// Takes managed memory by the workload's policy (managed.cpp).
[[nodiscard]] cuda::CUresult take_managed(ManagedPolicy policy, cuda::CUdeviceptr& address, std::size_t size,
                                          unsigned int flags, const Place& place) noexcept;
/// As free_pool_pointer().
[[nodiscard]] bool free_managed_block(cuda::CUdeviceptr address, cuda::CUresult& result) noexcept;
/// Moves managed memory to the host, where the policy allows it, until `needed` bytes fit into the account.
void evict_managed(std::uint32_t account, Bytes needed) noexcept;

/// A context that no hook saw made: by a private function of the driver (ZLUDA's dark_api lists one), or of a green
/// context. It is there already, so it is charged past the limit, too, with what a context is known to cost.
void adopt_context(cuda::CUcontext context, cuda::CUdevice device, std::uint32_t account) noexcept;
/// The number of a context in this process: never given twice, unlike the driver's handles.
[[nodiscard]] std::uint64_t context_number(cuda::CUcontext context) noexcept;
/// Whether that is still the number of a context.
[[nodiscard]] bool context_lives(std::uint64_t number) noexcept;
/// What was taken in the context before it had its number, by a thread that found it current, is the context's.
void adopt_blocks(std::uint64_t handle, std::uint64_t number) noexcept;
void adopt_modules(std::uint64_t handle, std::uint64_t number) noexcept;

/// A context of this process, as contexts.cpp knows it.
struct LivingContext {
  std::uint64_t number = 0;
  cuda::CUcontext handle = nullptr;
  cuda::CUdevice device = -1;
  std::uint32_t account = kNoAccount;
};
inline constexpr std::uint64_t kAllContexts = ~std::uint64_t{0};
/// The context with the lowest number above `number`. False: there is none.
[[nodiscard]] bool next_context(std::uint64_t number, LivingContext& out) noexcept;
/// No context has a higher number yet.
[[nodiscard]] std::uint64_t last_context() noexcept;

/// While one lives, and its thread does not sleep for memory, no library is loaded or unloaded by another thread, so
/// that a context that is made meanwhile is charged for all that there are (libraries.cpp).
class CodeOfNewContext : LeftWhileAsleep {
 public:
  CodeOfNewContext() noexcept;
  ~CodeOfNewContext();
  /// What they take in a context of the device.
  [[nodiscard]] Bytes size(cuda::CUdevice device) const noexcept;

 private:
  explicit CodeOfNewContext(bool nested) noexcept;
  bool nested_;
};

/// Everything that lived in the context of that number is gone with it. `now` is the number of the context where it was
/// reset and lives on, and is current; else 0. What another thread took in it after the reset is there, and stays.
void blocks_of_context_are_gone(std::uint64_t context, std::uint64_t now) noexcept;
void arrays_of_context_are_gone(std::uint64_t context) noexcept;
void modules_of_context_are_gone(std::uint64_t context) noexcept;
void managed_of_context_is_gone(std::uint64_t context, std::uint64_t now) noexcept;

/// While one lives, no other thread changes which handle or address stands for which physical memory. Held from a
/// driver call that does so, or that keeps such memory alive, to its entry: whatever another thread releases or unmaps
/// meanwhile, the entry is of the memory that the driver meant. Memory is not waited for while it is held.
class VirtualMemoryChange {
 public:
  VirtualMemoryChange() noexcept;
  ~VirtualMemoryChange();
  VirtualMemoryChange(const VirtualMemoryChange&) = delete;
  VirtualMemoryChange& operator=(const VirtualMemoryChange&) = delete;
};

/// Keeps the memory alive in the book that a handle stands for; its number, or 0 where no hook has seen it made.
[[nodiscard]] std::uint64_t hold_physical_of(cuda::CUmemGenericAllocationHandle handle) noexcept;
/// The same for the memory that is mapped at an address.
[[nodiscard]] std::uint64_t hold_physical_at(cuda::CUdeviceptr address) noexcept;
void hold_physical(std::uint64_t number) noexcept;
void let_go_physical(std::uint64_t number) noexcept;
/// Which account is charged for it; kNoAccount: none.
[[nodiscard]] std::uint32_t account_of_physical(std::uint64_t number) noexcept;

/// What was mapped into an array, up to the mapping that was the last one when its end began, is gone with it.
[[nodiscard]] std::uint64_t last_array_mapping() noexcept;
void array_mappings_are_gone(std::uint64_t array, std::uint64_t last) noexcept;

}  // namespace ration::shim
