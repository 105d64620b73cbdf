// Managed memory: its contents lie in the host's memory at all times, and what of it counts as being on the device is
// kept apart. Used by memory.cpp, copies.cpp, modules.cpp and attributes.cpp.
//
// As the driver's documentation has it: nothing is anywhere until it is touched; what a copy or a fill writes, what is
// prefetched, and at a launch everything that a kernel could reach, moves to the device as far as that has room, but
// for what prefers the host; and it makes place for whoever takes plain memory ("external oversubscription",
// uvm_pmm_gpu.h of the open kernel modules).
#pragma once

#include "host_memory.hpp"

namespace ration::sim {

cuda::CUresult allocate_managed(cuda::CUdeviceptr* out, std::uint64_t size);

// Under driver().mutex.
bool free_managed(std::uint64_t address);
bool find_managed(std::uint64_t address, Allocation& out);
void clear_managed(Context* context);

/// Prefetches to whose turn their streams have come begin. Called by those who wait for a stream.
void arrive_managed();
/// The device writes there: what of it is managed moves to it.
void touch_managed(std::uint64_t address, std::uint64_t size);
/// A kernel runs on the device of `context`, and may reach all of it.
void touch_all_managed(Context* context);

}  // namespace ration::sim
