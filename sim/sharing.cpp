// Memory that other processes import by a 64-byte handle (cuIpc…) or through a pool's descriptor. The exporter owns it;
// it lives until the exporter has freed it and every importer has closed it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/system_calls.hpp"
#include "driver.hpp"
#include "driver/cuda_share_abi.hpp"
#include "host_memory.hpp"
#include "shared_blocks.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

/// The content of an IPC handle and of a pool pointer's export data.
struct Ticket {
  std::uint64_t magic, id, offset;
};
constexpr std::uint64_t kBlockTicket = 0x31656c646e61686d;
constexpr std::uint64_t kPointerTicket = 0x317265746e696f70;

/// The content of a pool's descriptor.
struct PoolTicket {
  std::uint64_t magic;
  std::int32_t device;
};
constexpr std::uint64_t kPoolTicket = 0x31746b74306c6f6f;

struct Imported {
  Block block;
  int opened = 0;
};
std::unordered_map<std::uint64_t, Imported>& imported =
    *new std::unordered_map<std::uint64_t, Imported>;  // by the block's number
struct Pointer {
  std::uint64_t id = 0;
  bool of_pool = false;
};
std::unordered_map<std::uint64_t, Pointer>& pointers = *new std::unordered_map<std::uint64_t, Pointer>;

CUresult write_ticket(Block* block, std::uint64_t address, std::uint64_t magic, void* out) {
  if (block == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (block->published == 0)
    block->published = SharedBlocks::get()->publish(block->device, block->granules, block->size);
  if (block->published == 0) return CUDA_ERROR_OPERATING_SYSTEM;
  const Ticket ticket{magic, block->published, address - block->address};
  std::memset(out, 0, sizeof(CUipcMemHandle));
  std::memcpy(out, &ticket, sizeof ticket);
  return CUDA_SUCCESS;
}

CUresult open_ticket(const void* data, std::uint64_t magic, CUdeviceptr* out,
                     const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Ticket ticket{};
  std::memcpy(&ticket, data, sizeof ticket);
  if (out == nullptr || ticket.magic != magic) return CUDA_ERROR_INVALID_VALUE;
  // Only other processes may import the block.
  if (SharedBlocks::get()->is_own(ticket.id)) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard guard(driver().mutex);
  auto found = imported.find(ticket.id);
  if (found == imported.end()) {
    SharedBlock shared;
    Imported entry;
    entry.block.imported = SharedBlocks::get()->import(ticket.id, shared);
    if (!entry.block.imported) return CUDA_ERROR_INVALID_VALUE;  // the block was freed meanwhile
    entry.block.published = ticket.id;
    entry.block.device = shared.device;
    entry.block.size = shared.size;
    entry.block.granules = shared.granules;
    if (!place_block(entry.block)) {
      SharedBlocks::get()->release(ticket.id);
      return CUDA_ERROR_MAP_FAILED;
    }
    found = imported.emplace(ticket.id, std::move(entry)).first;
  }
  ++found->second.opened;
  *out = found->second.block.address + ticket.offset;
  pointers[*out] = {ticket.id, magic == kPointerTicket};
  return CUDA_SUCCESS;
}

}  // namespace

bool find_imported(std::uint64_t address, Allocation& out) {
  for (const auto& [id, entry] : imported) {
    const Block& block = entry.block;
    if (address < block.address || address - block.address >= block.extent) continue;
    out = {block.address, block.size, block.device, nullptr, false, false, nullptr};
    return true;
  }
  return false;
}

bool close_imported(std::uint64_t address, bool of_pool) {
  const auto pointer = pointers.find(address);
  if (pointer == pointers.end() || pointer->second.of_pool != of_pool) return false;
  const auto found = imported.find(pointer->second.id);
  if (--found->second.opened > 0) return true;
  std::erase_if(pointers, [&](const auto& entry) { return entry.second.id == found->first; });
  give_block(found->second.block);
  imported.erase(found);
  return true;
}

}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  return write_ticket(block_of(address), address, kBlockTicket, out);
}

RATION_ENTRY cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int) {
  return open_ticket(&handle, kBlockTicket, out);
}
RATION_ENTRY cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

RATION_ENTRY cuIpcCloseMemHandle(CUdeviceptr address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  return close_imported(address, false) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RATION_ENTRY cuMemPoolExportToShareableHandle(void* out, CUmemoryPool pool, CUmemAllocationHandleType type,
                                              unsigned long long) {
  if (out == nullptr || pool == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const PoolTicket ticket{kPoolTicket, shareable_pool_device(pool)};
  if (ticket.device < 0) return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = ration::memory_file("ration-sim-pool");
  if (descriptor < 0 || ::write(descriptor, &ticket, sizeof ticket) != sizeof ticket)
    return CUDA_ERROR_OPERATING_SYSTEM;
  Node::get()->note(Unmovable::kShared);
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* descriptor, CUmemAllocationHandleType type,
                                                unsigned long long) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  PoolTicket ticket{};
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      ::pread(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), &ticket, sizeof ticket, 0) !=
          sizeof ticket ||
      ticket.magic != kPoolTicket) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Node::get()->note(Unmovable::kShared);
  *out = import_pool(ticket.device);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  return write_ticket(pool_block_of(address), address, kPointerTicket, out);
}

RATION_ENTRY cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  if (pool == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return open_ticket(data, kPointerTicket, out);
}
