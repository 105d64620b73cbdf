// Pinned host memory, and the kind of memory behind a pointer. Used by host_memory.cpp, memory.cpp and attributes.cpp.
#pragma once

#include <cstdint>

#include "driver.hpp"

namespace ration::sim {

struct HostBlock {
  std::uint64_t start = 0, size = 0;
  unsigned flags = 0;
  bool registered = false;     ///< the program's own memory, registered with the driver
  Context* context = nullptr;  ///< in which it was taken or registered; of mapped memory and of pools none
  cuda::CUmemoryPool pool = nullptr;
};
bool find_host_block(std::uint64_t address, HostBlock& out);

/// Finds the place for memory: `device` of the node, -1 for the host. INVALID_DEVICE and INVALID_VALUE: no such place.
cuda::CUresult check_location(cuda::CUmemLocation location, int& device);

/// The kinds of memory that an entry accepts at an address. kDevice: memory that the driver knows, also of the host
/// where it is pinned or managed. kAny: that, or any of the program's.
enum class Reach { kDevice, kAny };
/// Returns true if there is memory in the whole range.
[[nodiscard]] bool is_reachable(std::uint64_t address, std::uint64_t size, Reach reach);

/// The device memory that contains a pointer, however it was taken.
struct Allocation {
  std::uint64_t start = 0, size = 0;
  int device = 0;
  Context* context = nullptr;
  bool managed = false;
  bool plain = false;  ///< by cuMemAlloc: can be shared by an IPC handle
  cuda::CUmemoryPool pool = nullptr;
  bool mapped = false;  ///< physical memory: a mapping behind it continues it
};
bool find_allocation(std::uint64_t address, Allocation& out);

// The look-ups of the parts of the driver. Under driver().mutex.
bool find_plain(std::uint64_t address, Allocation& out);
bool find_in_pool(std::uint64_t address, Allocation& out);
bool find_mapped(std::uint64_t address, Allocation& out);
bool find_mapped_host(std::uint64_t address, HostBlock& out);
bool find_in_host_pool(std::uint64_t address, HostBlock& out);
bool find_imported(std::uint64_t address, Allocation& out);
bool find_in_graph(std::uint64_t address, Allocation& out);
/// Returns true if the driver reserves the address for later memory.
bool is_reserved(std::uint64_t address);
bool is_of_graph(std::uint64_t address);

}  // namespace ration::sim
