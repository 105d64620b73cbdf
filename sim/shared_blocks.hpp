// Device memory that several processes hold: blocks made known to others by an IPC handle or by a file descriptor.
// Used by sharing.cpp, virtual_memory.cpp and the node.
//
// Each published block has a file in the node's folder. Whoever can keep the block alive has that file open with a
// shared lock: an importer while it has the memory open, and every descriptor that was exported, wherever it travels.
// The kernel drops such a lock with the last copy of the descriptor, however its process ends. The block is freed when
// its owner has given it up, or is dead, and an exclusive lock can be had. Until then its bytes are the owner's.
#pragma once

#include <cstdint>
#include <string>

#include "node.hpp"

namespace ration::sim {

struct SharedTable;

/// What a block's file says.
struct SharedBlock {
  std::uint64_t id = 0;
  int device = 0;
  std::uint64_t size = 0;
  Granules granules;
};

class SharedBlocks {
 public:
  /// Null: the node's folder cannot be written.
  static SharedBlocks* get();

  /// Makes granules of this process known to others. 0: no more can be.
  std::uint64_t publish(int device, const Granules& granules, std::uint64_t size);
  /// A descriptor that keeps the block alive until its last copy is closed. -1: the block is gone.
  int hold(std::uint64_t id, SharedBlock& out);
  /// The block that a descriptor from hold() stands for. False: it is none.
  static bool identify(int descriptor, std::uint64_t& id);
  /// The owner gave it up: freed now or when its last holder is gone.
  void drop(std::uint64_t id);
  /// Whether this process published it.
  [[nodiscard]] bool is_own(std::uint64_t id);
  void release(int hold);

  /// Frees what nobody holds any more. Under the node's lock.
  void reclaim();
  /// Whether a granule belongs to a published block. Under the node's lock.
  [[nodiscard]] bool covers(int device, std::uint32_t granule) const;

 private:
  [[nodiscard]] std::string path_of(std::uint64_t id) const;
  bool open();

  std::string folder_;
  SharedTable* table_ = nullptr;
};

}  // namespace ration::sim
