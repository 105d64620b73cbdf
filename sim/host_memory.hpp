// The pinned host memory, and the kind of memory behind a pointer. Used by host_memory.cpp, memory.cpp and
// attributes.cpp.
#pragma once

#include <cstdint>

#include "driver.hpp"

namespace ration::sim {

struct HostBlock {
  std::uint64_t start = 0, size = 0;
  unsigned flags = 0;
  bool registered = false;     ///< the program's own memory, registered with the driver
  Context* context = nullptr;  ///< the context in which it was taken or registered; null for mapped memory and pools
  cuda::CUmemoryPool pool = nullptr;
};
bool find_host_block(std::uint64_t address, HostBlock& out);

/// Finds the place that a location names: a `device` of the node, or -1 for the host. Returns an error if there is no
/// such place.
cuda::CUresult check_location(cuda::CUmemLocation location, int& device);

/// The kinds of memory that an entry accepts at an address. kDevice is memory that the driver knows, including pinned
/// and managed host memory; kAny is any memory of the program, including that of kDevice.
enum class Reach { kDevice, kAny };
/// Returns true if the whole range is memory of that kind.
[[nodiscard]] bool is_reachable(std::uint64_t address, std::uint64_t size, Reach reach);

/// The device memory that contains a pointer, whichever call allocated it.
struct Allocation {
  std::uint64_t start = 0, size = 0;
  int device = 0;
  Context* context = nullptr;
  bool managed = false;
  bool plain = false;  ///< from cuMemAlloc, so an IPC handle can share it
  cuda::CUmemoryPool pool = nullptr;
  bool mapped = false;  ///< physical memory that is mapped; a range may extend into the next mapping
};
bool find_allocation(std::uint64_t address, Allocation& out);

// The look-ups in one kind of memory each, defined in the file of that kind. They require driver().mutex.
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
