#include "host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "managed.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

auto& host_blocks() {
  static auto* map = new std::map<std::uint64_t, HostBlock>;  // never destroyed: atexit handlers call the driver
  return *map;
}

/// Returns the size in bytes of all pages in which the range lies.
Bytes pages_of(std::uint64_t address, std::uint64_t size) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return round_up(Bytes{address % page + size}, Bytes{page});
}

/// Small blocks that were freed, kept for later requests of the same size. Otherwise a request would spend most of its
/// time on mapping and unmapping its block. Requires driver().mutex.
auto& kept_blocks() {
  static auto* blocks = new std::vector<HostBlock>;  // never destroyed: atexit handlers call the driver
  return *blocks;
}
constexpr std::size_t kKeptBlocks = 16;
constexpr std::uint64_t kLargestKept = 64 << 10;  // bytes

/// Returns a kept block of that size, or null. Requires driver().mutex.
void* take_kept(std::uint64_t size) {
  auto& kept = kept_blocks();
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const HostBlock& block) { return block.size == size; });
  if (found == kept.end()) return nullptr;
  void* const start = reinterpret_cast<void*>(found->start);
  kept.erase(found);
  return start;
}

/// Unregisters a block that the program registered; keeps or unmaps a block that the driver mapped. Requires
/// driver().mutex.
void release(const HostBlock& block) {
  Node::get()->unpin(pages_of(block.start, block.size));
  if (block.registered) return;
  if (block.size <= kLargestKept && kept_blocks().size() < kKeptBlocks)
    kept_blocks().push_back(block);
  else
    ::munmap(reinterpret_cast<void*>(block.start), block.size);
}

CUresult map(void** out, std::size_t size, unsigned flags, const char* function) {
  if (const CUresult state = ready(size, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  if (!Node::get()->pin(pages_of(0, size))) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = take_kept(size);
  if (memory == nullptr) memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    Node::get()->unpin(pages_of(0, size));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  host_blocks()[start] = {start, size, flags, false, current()};
  *out = memory;
  return CUDA_SUCCESS;
}

CUresult take(void** out, std::size_t size, unsigned flags, const char* function = __builtin_FUNCTION()) {
  const auto describe = [&](Operation& operation) {
    operation.out = reinterpret_cast<CUdeviceptr*>(out);
    operation.bytes = size;
    operation.memory = Memory::kPinned;
  };
  return observed(Work::kAllocate, function, describe, [&] { return map(out, size, flags, function); });
}

CUresult drop(void* address, bool registered, CUresult unknown, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  // Answers for null are those of a real driver (driver 590, github.com/lupinemachines/lupine/issues/850).
  if (address == nullptr) return registered ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  finish_context();
  const std::lock_guard guard(driver().mutex);
  const auto found = host_blocks().find(reinterpret_cast<std::uint64_t>(address));
  if (found == host_blocks().end() || found->second.registered != registered) return unknown;
  release(found->second);
  host_blocks().erase(found);
  return CUDA_SUCCESS;
}

/// Returns true if the whole range is mapped in the program.
bool is_mapped(std::uint64_t address, std::uint64_t size) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::uint64_t kPages = 4096;  // pages per call
  unsigned char resident[kPages];
  const std::uint64_t end = address + size;
  for (std::uint64_t at = address / page * page; at < end; at += kPages * page) {
    const std::uint64_t length = std::min(kPages * page, end - at);
    if (::mincore(reinterpret_cast<void*>(at), length, resident) != 0) return false;
  }
  return true;
}

bool is_numa_node(int node) {
  // A machine without that folder has only node 0.
  return node == 0 ||
         (node > 0 && ::access(("/sys/devices/system/node/node" + std::to_string(node)).c_str(), F_OK) == 0);
}

}  // namespace

// Releases the pinned memory of a context. Real drivers, too, unregister memory when the context in which it was
// registered ends (github.com/openucx/ucx/pull/10643).
void clear_pinned(Context* context) {
  std::erase_if(host_blocks(), [&](const auto& entry) {
    if (entry.second.context != context) return false;
    release(entry.second);
    return true;
  });
}

bool find_host_block(std::uint64_t address, HostBlock& out) {
  const std::lock_guard guard(driver().mutex);
  auto found = host_blocks().upper_bound(address);
  if (found == host_blocks().begin() || address - (--found)->first >= found->second.size)
    return find_mapped_host(address, out) || find_in_host_pool(address, out);
  out = found->second;
  return true;
}

CUresult check_location(CUmemLocation location, int& device) {
  device = -1;
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      device = node_device(location.id);
      return device < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return is_numa_node(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

bool find_allocation(std::uint64_t address, Allocation& out) {
  const std::lock_guard guard(driver().mutex);
  return find_plain(address, out) || find_managed(address, out) || find_in_pool(address, out) ||
         find_mapped(address, out) || find_imported(address, out) || find_in_graph(address, out);
}

namespace {

/// Returns true for an address in a device's window, in a range that the driver reserves, or in a kept block. Such an
/// address has memory only inside an allocation.
bool is_drivers(std::uint64_t address) {
  const Node& node = *Node::get();
  for (int device = 0; device < static_cast<int>(node.models().size()); ++device) {
    const auto start = reinterpret_cast<std::uint64_t>(node.window(device));
    if (address - start < std::uint64_t{node.places(device)} << 21) return true;
  }
  const std::lock_guard guard(driver().mutex);
  return is_reserved(address) || is_of_graph(address) ||
         std::any_of(kept_blocks().begin(), kept_blocks().end(),
                     [&](const HostBlock& block) { return address - block.start < block.size; });
}

}  // namespace

bool is_reachable(std::uint64_t address, std::uint64_t size, Reach reach) {
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 47;  // the end of a program's addresses
  if (size == 0) return true;
  if (address == 0 || address >= kEnd || size > kEnd - address) return false;
  Allocation found;
  while (find_allocation(address, found)) {
    const std::uint64_t left = found.size - (address - found.start);
    if (size <= left) return true;
    if (!found.mapped) return false;
    address += left, size -= left;
  }
  HostBlock host;
  if (find_host_block(address, host) && size <= host.size - (address - host.start)) return true;
  return reach == Reach::kAny && !is_drivers(address) && is_mapped(address, size);
}

}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

RATION_ENTRY cuMemHostAlloc(void** out, std::size_t size, unsigned int flags) { return take(out, size, flags); }
RATION_ENTRY cuMemAllocHost_v2(void** out, std::size_t size) { return take(out, size, 0); }
RATION_ENTRY cuMemFreeHost(void* address) {
  const auto describe = [&](Operation& operation) {
    operation.address = reinterpret_cast<std::uint64_t>(address);
    operation.memory = memory_at(operation.address, &operation.bytes);
  };
  return observed(Work::kFree, "cuMemFreeHost", describe,
                  [&] { return drop(address, false, CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost"); });
}
RATION_ENTRY cuMemHostRegister_v2(void* address, std::size_t size, unsigned int flags) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  HostBlock present;
  if (find_host_block(reinterpret_cast<std::uint64_t>(address), present))
    return static_cast<CUresult>(712);  // the memory is registered already
  if (!is_mapped(reinterpret_cast<std::uint64_t>(address), size)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  if (!Node::get()->pin(pages_of(reinterpret_cast<std::uint64_t>(address), size))) return CUDA_ERROR_OUT_OF_MEMORY;
  host_blocks()[reinterpret_cast<std::uint64_t>(address)] = {reinterpret_cast<std::uint64_t>(address), size, flags,
                                                             true, current()};
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemHostUnregister(void* address) {
  return drop(address, true, static_cast<CUresult>(713));  // the memory is not registered
}
RATION_ENTRY cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* address, unsigned int flags) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  HostBlock found;
  if (out == nullptr || flags != 0 || !find_host_block(reinterpret_cast<std::uint64_t>(address), found))
    return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuMemHostGetFlags(unsigned int* out, void* address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  HostBlock found;
  if (out == nullptr || !find_host_block(reinterpret_cast<std::uint64_t>(address), found))
    return CUDA_ERROR_INVALID_VALUE;
  *out = found.flags;
  return CUDA_SUCCESS;
}
