// Managed memory: its contents always lie in host memory, and the part that counts as being on the device is tracked
// separately. Used by memory.cpp, copies.cpp, modules.cpp and attributes.cpp.
//
// It follows the driver's documentation: a page is nowhere until it is touched. Pages move to the device, as far as
// that has room, when a copy or a fill writes them, when they are prefetched, and, at a launch, if a kernel could reach
// them, unless they prefer the host. They leave it when plain memory needs the room ("external oversubscription",
// uvm_pmm_gpu.h of the open kernel modules).
#pragma once

#include "host_memory.hpp"

namespace ration::sim {

cuda::CUresult allocate_managed(cuda::CUdeviceptr* out, std::uint64_t size);

// Requires driver().mutex.
bool free_managed(std::uint64_t address);
bool find_managed(std::uint64_t address, Allocation& out);
void clear_managed(Context* context);

/// Begins prefetches whose turn in their streams has come. Called by functions that wait for a stream.
void arrive_managed();
/// Moves managed memory to the device that writes there.
void touch_managed(std::uint64_t address, std::uint64_t size);
/// Lets a kernel run on the device of `context`, which may reach all of its managed memory.
void touch_all_managed(Context* context);

}  // namespace ration::sim
