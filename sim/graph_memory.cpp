#include "graph_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "contents.hpp"
#include "host_memory.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

constexpr std::uint64_t kStep = kGranule.count();

struct GraphPool {
  std::vector<std::uint32_t> idle;
  std::uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
};

GraphPool* const graph_pools = new GraphPool[kMaxDevices];
std::map<std::uint64_t, std::weak_ptr<GraphAllocation>>& allocations =
    *new std::map<std::uint64_t, std::weak_ptr<GraphAllocation>>;  // by address
std::map<std::uint64_t, std::shared_ptr<GraphAllocation>>& live =
    *new std::map<std::uint64_t, std::shared_ptr<GraphAllocation>>;  // an allocation may outlive its graph

/// Gives idle granules back to the device. Their contents are lost.
void trim(int device) {
  give_up_uploads(device);
  GraphPool& pool = graph_pools[device];
  Granules granules;
  granules.count = static_cast<std::uint32_t>(pool.idle.size());
  granules.scattered.swap(pool.idle);
  pool.reserved -= granules.count * kStep;
  if (granules.count > 0) Node::get()->give(device, granules);
}

}  // namespace

GraphAllocation::~GraphAllocation() {
  ::munmap(reinterpret_cast<void*>(address), extent);
  allocations.erase(address);
}

std::shared_ptr<GraphAllocation> make_graph_allocation(int device, std::uint64_t size) {
  const std::uint64_t extent = round_up(Bytes{size}, kGranule).count();
  void* range = ::mmap(nullptr, extent + kStep, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uint64_t>(range);
  auto allocation = std::make_shared<GraphAllocation>();
  allocation->device = device;
  allocation->size = size;
  allocation->extent = extent;
  allocation->address = round_up(Bytes{start}, kGranule).count();
  if (allocation->address > start) ::munmap(range, allocation->address - start);
  if (start + kStep > allocation->address) {
    ::munmap(reinterpret_cast<void*>(allocation->address + extent), start + kStep - allocation->address);
  }
  allocations[allocation->address] = allocation;
  return allocation;
}

std::shared_ptr<GraphAllocation> graph_allocation_at(std::uint64_t address) {
  const auto found = allocations.find(address);
  return found == allocations.end() ? nullptr : found->second.lock();
}

namespace {

std::shared_ptr<GraphAllocation> allocation_over(std::uint64_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return nullptr;
  auto found = std::prev(next)->second.lock();
  return found != nullptr && address - found->address < found->extent ? found : nullptr;
}

}  // namespace

bool find_in_graph(std::uint64_t address, Allocation& out) {
  const auto found = allocation_over(address);
  if (found == nullptr || found->granules.empty() || address - found->address >= found->size) return false;
  out = {found->address, found->size, found->device};
  return true;
}

bool is_of_graph(std::uint64_t address) { return allocation_over(address) != nullptr; }

bool take_graph_granules(int device, std::size_t count, std::vector<std::uint32_t>& out) {
  GraphPool& pool = graph_pools[device];
  if (count > pool.idle.size()) {
    Granules more;
    if (!Node::get()->take(device, count - pool.idle.size(), more)) return false;
    for (std::uint32_t i = 0; i < more.count; ++i) pool.idle.push_back(more.at(i));
    pool.reserved += more.count * kStep;
    pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  }
  out.assign(pool.idle.end() - static_cast<std::ptrdiff_t>(count), pool.idle.end());
  pool.idle.resize(pool.idle.size() - count);
  pool.used += count * kStep;
  pool.used_high = std::max(pool.used_high, pool.used);
  return true;
}

void give_graph_granules(int device, std::vector<std::uint32_t>& granules) {
  GraphPool& pool = graph_pools[device];
  pool.idle.insert(pool.idle.end(), granules.begin(), granules.end());
  pool.used -= granules.size() * kStep;
  granules.clear();
}

void map_graph_allocation(GraphAllocation& allocation) {
  std::uint64_t at = allocation.address;
  for (std::size_t i = 0; i < allocation.granules.size();) {  // maps runs of granules at once
    std::size_t run = 1;
    while (i + run < allocation.granules.size() && allocation.granules[i + run] == allocation.granules[i] + run) ++run;
    // The range is reserved. If the process has too many mappings nevertheless, an access is a fault, as on a device.
    (void)map_granules(at, allocation.device, allocation.granules[i], static_cast<std::uint32_t>(run));
    at += run * kStep;
    i += run;
  }
}

void unmap_graph_allocation(GraphAllocation& allocation) { unmap_granules(allocation.address, allocation.extent); }

void keep_graph_allocation(const std::shared_ptr<GraphAllocation>& allocation) {
  allocation->live = true;
  live[allocation->address] = allocation;
}

bool free_graph_allocation(std::uint64_t address) {
  const auto found = live.find(address);
  if (found == live.end()) return false;
  GraphAllocation& allocation = *found->second;
  allocation.live = false;
  unmap_graph_allocation(allocation);
  give_graph_granules(allocation.device, allocation.granules);
  live.erase(found);
  return true;
}

void clear_graph_memory(int device) {
  std::vector<std::uint64_t> left;
  for (const auto& [address, allocation] : live) {
    if (allocation->device == device) left.push_back(address);
  }
  for (const std::uint64_t address : left) free_graph_allocation(address);
  trim(device);
}

}  // namespace ration::sim

using namespace ration::sim;

namespace {

std::uint64_t* counter(GraphPool& pool, CUgraphMem_attribute attribute) {
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      return &pool.used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      return &pool.used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      return &pool.reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      return &pool.reserved_high;
  }
  return nullptr;
}

}  // namespace

RATION_ENTRY cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* out) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(driver().mutex);
  const std::uint64_t* value = counter(graph_pools[node_device(device)], attribute);
  if (value == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<cuuint64_t*>(out) = *value;
  return CUDA_SUCCESS;
}

// Resets high-water marks, the only attributes that can be set. The only valid value is 0; a mark then starts from the
// present use.
RATION_ENTRY cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  GraphPool& pool = graph_pools[node_device(device)];
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
    pool.used_high = pool.used;
  else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    pool.reserved_high = pool.reserved;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceGraphMemTrim(CUdevice device) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (node_device(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard guard(driver().mutex);
  trim(node_device(device));
  return CUDA_SUCCESS;
}
