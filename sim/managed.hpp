// Managed memory. Its contents always lie in host memory; which part counts as being on the device is tracked
// separately. Used by memory.cpp, copies.cpp, modules.cpp and attributes.cpp.
//
// The rules follow the driver's documentation. A page is nowhere until it is touched. Pages move to the device, as far
// as it has room, when they are prefetched, when a copy or a fill writes them, and at a launch if a kernel could reach
// them. Only a prefetch moves pages that prefer the host. Pages leave the device when plain memory needs the room
// ("external oversubscription", uvm_pmm_gpu.h of the open kernel modules).
#pragma once

#include "host_memory.hpp"

namespace ration::sim {

cuda::CUresult allocate_managed(cuda::CUdeviceptr* out, std::uint64_t size);

// These functions require driver().mutex.
bool free_managed(std::uint64_t address);
bool find_managed(std::uint64_t address, Allocation& out);
void clear_managed(Context* context);

/// Begins every prefetch that its stream has reached. Called by functions that wait for a stream.
void arrive_managed();
/// Moves managed memory to the device that writes it.
void touch_managed(std::uint64_t address, std::uint64_t size);
/// Moves all managed memory of this process that does not prefer the host to the device of `context`, where a kernel
/// may reach it.
void touch_all_managed(Context* context);

}  // namespace ration::sim
