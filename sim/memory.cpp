// Linear memory, including that of arrays. Large blocks have whole granules; small blocks share granules by size class.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "arrays.hpp"
#include "capture.hpp"
#include "contents.hpp"
#include "driver.hpp"
#include "graph_memory.hpp"
#include "host_memory.hpp"
#include "managed.hpp"
#include "observer.hpp"
#include "shared_blocks.hpp"
#include "stream_time.hpp"

namespace ration::sim {

using namespace literals;
using namespace cuda;

namespace {

constexpr std::uint64_t kSmall = 1 << 20;  // the size from which a block has granules of its own

/// A granule that is cut into equal pieces.
struct Arena {
  Block block;
  int piece_class = 0;
  std::vector<std::uint32_t> unused;
  std::vector<bool> taken;  // by piece: true if in use, so that a second free is rejected
  std::uint32_t pieces = 0;
};

using Arenas = std::unordered_map<std::uint64_t, Arena*>;
Arenas& arenas = *new Arenas;  // by granule address
using WithRoom = std::map<std::pair<Context*, int>, std::vector<Arena*>>;
WithRoom& with_room = *new WithRoom;  // arenas with a free piece, by context and class

CUresult take_linear(CUdeviceptr* out, std::uint64_t size, const char* function) {
  if (const CUresult state = ready(size, function); state != CUDA_SUCCESS) return state;
  Context* context = current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& state = driver();
  const std::lock_guard guard(state.mutex);
  if (!context->alive) return CUDA_ERROR_INVALID_CONTEXT;
  if (size > kSmall / 2 || size > kUnlimited.count()) {
    Block block;
    if (size > kUnlimited.count() || !take_block(context->device, size, block)) return CUDA_ERROR_OUT_OF_MEMORY;
    block.context = context;
    *out = block.address;
    state.blocks.emplace(block.address, std::move(block));
    return CUDA_SUCCESS;
  }
  const int piece_class = std::max(0, static_cast<int>(std::bit_width(size - 1)) - 9);
  auto& candidates = with_room[{context, piece_class}];
  if (candidates.empty()) {
    Block block;
    if (!take_block(context->device, kGranule.count(), block)) return CUDA_ERROR_OUT_OF_MEMORY;
    block.context = context;
    auto* arena = new Arena;
    arena->piece_class = piece_class;
    arena->pieces = static_cast<std::uint32_t>(kGranule.count() >> (9 + piece_class));
    for (std::uint32_t i = arena->pieces; i > 0; --i) arena->unused.push_back(i - 1);
    arena->taken.resize(arena->pieces);
    arena->block = std::move(block);
    arenas.emplace(arena->block.address, arena);
    candidates.push_back(arena);
  }
  Arena* arena = candidates.back();
  *out = arena->block.address + (std::uint64_t{arena->unused.back()} << (9 + piece_class));
  arena->taken[arena->unused.back()] = true;
  arena->unused.pop_back();
  if (arena->unused.empty()) candidates.pop_back();
  return CUDA_SUCCESS;
}

CUresult give_linear(CUdeviceptr address, Memory memory, const char* function) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (address == 0) return CUDA_SUCCESS;
  finish_context();
  const std::lock_guard guard(driver().mutex);
  if (memory == Memory::kArray) return free_plain(address, true) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  return free_managed(address) || free_plain(address) || free_from_pool(address) || free_graph_allocation(address) ||
                 close_imported(address, true)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult allocate(CUdeviceptr* out, std::uint64_t size, Memory memory = Memory::kDevice,
                  const char* function = __builtin_FUNCTION()) {
  const auto describe = [&](Operation& operation) {
    operation.out = out;
    operation.bytes = size;
    operation.memory = memory;
  };
  return observed(Work::kAllocate, function, describe, [&] {
    return memory == Memory::kManaged ? allocate_managed(out, size) : take_linear(out, size, function);
  });
}

CUresult release(CUdeviceptr address, Memory memory = Memory::kUnknown, const char* function = __builtin_FUNCTION()) {
  const auto describe = [&](Operation& operation) {
    operation.address = address;
    operation.memory = memory_at(address, &operation.bytes, &operation.device);
    if (memory != Memory::kUnknown) operation.memory = memory;
  };
  return observed(Work::kFree, function, describe, [&] { return give_linear(address, memory, function); });
}

}  // namespace

CUresult allocate_array(CUdeviceptr* out, std::uint64_t size, const char* function) {
  const CUresult result = allocate(out, size, Memory::kArray, function);
  const std::lock_guard guard(driver().mutex);
  const auto made = result == CUDA_SUCCESS ? driver().blocks.find(*out) : driver().blocks.end();
  if (made != driver().blocks.end()) made->second.is_array = true;
  return result;
}
CUresult free_array(CUdeviceptr address, const char* function) { return release(address, Memory::kArray, function); }

bool take_block(int device, std::uint64_t size, Block& out) {
  Node& node = *Node::get();
  const std::uint64_t count = round_up(Bytes{size}, kGranule).count() >> 21;
  if (!node.take(device, count, out.granules)) return false;
  out.device = device;
  out.size = size;
  if (place_block(out)) return true;
  node.give(device, out.granules);
  return false;
}

namespace {

/// Ends the mappings of a block that lies outside the window, and its reserved range.
void drop_range(const Block& block) {
  unmap_granules(block.address, block.extent);
  ::munmap(reinterpret_cast<void*>(block.address), block.extent);
}

}  // namespace

bool place_block(Block& out) {
  Node& node = *Node::get();
  const int device = out.device;
  const std::uint64_t count = out.granules.count;
  out.extent = count << 21;
  out.in_window = out.granules.scattered.empty();
  if (out.in_window) {
    out.address = reinterpret_cast<std::uint64_t>(node.window(device)) + (std::uint64_t{out.granules.first} << 21);
    return true;
  }
  // Scattered granules are mapped side by side in a range of their own. The reserved range is a granule longer, so that
  // the mappings can be aligned.
  void* range =
      ::mmap(nullptr, out.extent + kGranule.count(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return false;
  out.address = round_up(Bytes{reinterpret_cast<std::uint64_t>(range)}, kGranule).count();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (map_granules(out.address + (i << 21), device, out.granules.at(static_cast<std::uint32_t>(i)), 1)) continue;
    drop_range(out);
    return false;
  }
  return true;
}

void give_block(Block& block) {
  if (!block.in_window) drop_range(block);
  if (block.imported)
    SharedBlocks::get()->release(block.published);
  else if (block.published != 0)
    SharedBlocks::get()->drop(block.published);
  else
    Node::get()->give(block.device, block.granules);
}

Block* block_of(std::uint64_t address) {
  Driver& state = driver();
  if (const auto found = state.blocks.find(address); found != state.blocks.end())
    return found->second.is_code || found->second.is_array ? nullptr : &found->second;
  const auto arena = arenas.find(round_down(Bytes{address}, kGranule).count());
  return arena == arenas.end() ? nullptr : &arena->second->block;
}

bool find_plain(std::uint64_t address, Allocation& out) {
  const auto describe = [&](std::uint64_t start, std::uint64_t size, const Block& block) {
    out = {start, size, block.device, block.context, false, true, nullptr};
    return true;
  };
  Driver& state = driver();
  if (const auto found = state.blocks.find(address); found != state.blocks.end())
    return describe(address, found->second.size, found->second);
  if (const auto arena = arenas.find(round_down(Bytes{address}, kGranule).count()); arena != arenas.end()) {
    const std::uint64_t piece = std::uint64_t{512} << arena->second->piece_class;
    const std::uint64_t start = arena->second->block.address + (address - arena->second->block.address) / piece * piece;
    return describe(start, piece, arena->second->block);
  }
  const auto next = state.blocks.upper_bound(address);
  if (next == state.blocks.begin()) return false;
  const auto& [start, block] = *std::prev(next);
  return address - start < block.size && describe(start, block.size, block);
}

bool free_plain(std::uint64_t address, bool of_array) {
  auto& blocks = driver().blocks;
  const auto found = blocks.find(address);
  if (found == blocks.end()) return free_small(address);
  if (found->second.is_code || found->second.is_array != of_array) return false;
  give_block(found->second);
  blocks.erase(found);
  return true;
}

bool free_small(std::uint64_t address) {
  const auto found = arenas.find(round_down(Bytes{address}, kGranule).count());
  if (found == arenas.end()) return false;
  Arena* arena = found->second;
  const auto piece = static_cast<std::uint32_t>((address - arena->block.address) >> (9 + arena->piece_class));
  const bool begins = address == arena->block.address + (std::uint64_t{piece} << (9 + arena->piece_class));
  if (!begins || !arena->taken[piece]) return false;  // no block begins there, or it was freed already
  arena->taken[piece] = false;
  auto& candidates = with_room[{arena->block.context, arena->piece_class}];
  if (arena->unused.empty()) candidates.push_back(arena);
  arena->unused.push_back(piece);
  if (arena->unused.size() == arena->pieces) {
    std::erase(candidates, arena);
    give_block(arena->block);
    arenas.erase(found);
    delete arena;
  }
  return true;
}

void clear_small(Context* context) {
  for (auto entry = arenas.begin(); entry != arenas.end();) {
    Arena* arena = entry->second;
    if (arena->block.context != context) {
      ++entry;
      continue;
    }
    give_block(arena->block);
    delete arena;
    entry = arenas.erase(entry);
  }
  std::erase_if(with_room, [&](const auto& item) { return item.first.first == context; });
}

void clear_context(Context* context) {
  Driver& state = driver();
  const std::lock_guard guard(state.mutex);
  clear_small(context);
  clear_pinned(context);
  clear_code(context);
  clear_managed(context);
  clear_unbacked_arrays(context);
  for (auto entry = state.blocks.begin(); entry != state.blocks.end();) {
    if (entry->second.context != context) {
      ++entry;
      continue;
    }
    forget_arrays(entry->first);
    give_block(entry->second);
    entry = state.blocks.erase(entry);
  }
}

}  // namespace ration::sim

using namespace ration::sim;

RATION_ENTRY cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (available == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const MemorySeen seen = Node::get()->seen(current()->device);
  *available = seen.free.count();
  *total = seen.total.count();
  return CUDA_SUCCESS;
}

RATION_ENTRY cuMemAlloc_v2(CUdeviceptr* out, std::size_t size) { return allocate(out, size); }

// An allocator with a name that no table lists (names.cpp), like a function of a later release.
extern "C" CUresult ration_sim_unlisted(CUdeviceptr* out, std::size_t size) { return allocate(out, size); }
RATION_ENTRY cuMemAllocManaged(CUdeviceptr* out, std::size_t size, unsigned int flags) {
  if (flags != 1 && flags != 2) return CUDA_ERROR_INVALID_VALUE;  // attached to all streams or to the host
  if (current() != nullptr) Node::get()->note(Unmovable::kManaged);
  return allocate(out, size, Memory::kManaged);
}
RATION_ENTRY cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height,
                                unsigned int) {
  if (pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t row = (width + 511) & ~std::size_t{511};
  std::size_t size = 0;
  if (row < width || __builtin_mul_overflow(row, height, &size)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = allocate(out, size);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}
RATION_ENTRY cuMemFree_v2(CUdeviceptr address) { return release(address); }
