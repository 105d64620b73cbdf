// Device memory that several processes hold: blocks that others know by an IPC handle or a file descriptor. Used by
// sharing.cpp, virtual_memory.cpp and the node.
//
// As in the kernel driver, every export opens the node's one control file anew. So all exported descriptors have one
// inode, and the file position of a descriptor tells which block it stands for. Each such descriptor also holds a file
// lock at the offset of the block's number. The kernel drops the lock when the last copy of the descriptor is closed,
// in whatever process that copy is. Each block is described in a file of its own in the node's folder. The node's state
// lists the owner and the importers of a block by the slots of their processes; a process leaves the list when it ends.
// The owner table names the block itself as the owner of its granules. A block is freed when its owner has given it up
// or is dead, no importer lives, and no descriptor holds a lock for it.
//
// NVML counts the memory of a client's own objects (open-gpu-kernel-modules 570, gpu_rmapi.c): a block counts for its
// owner until the owner frees it or ends, then for an importer, or for no process while only descriptors hold it.
#pragma once

#include <cstdint>
#include <string>

#include "node.hpp"

namespace ration::sim {

struct SharedRecord;

/// The content of a block's file.
struct SharedBlock {
  std::uint64_t id = 0;
  int device = 0;
  std::uint64_t size = 0;
  Granules granules;
};

class SharedBlocks {
 public:
  /// Returns this process's shared blocks, or null if the node's folder cannot be written.
  static SharedBlocks* get();

  /// Makes granules of this process available to others. Returns the block's number, or 0 if there is no room for it.
  std::uint64_t publish(int device, const Granules& granules, std::uint64_t size);
  /// Returns a descriptor that keeps the block alive until its last copy is closed, or -1 if the block is gone.
  int hold(std::uint64_t id, SharedBlock& out);
  /// Makes this process a holder of the block until release(). If the owner gives the block up, the block may count for
  /// this process. Returns false if the block is gone.
  bool import(std::uint64_t id, SharedBlock& out);
  /// Finds the block of a descriptor from hold(). Returns false if the descriptor stands for no block.
  bool identify(int descriptor, std::uint64_t& id) const;
  /// Gives the block up as its owner. The block is freed now, or once its last holder has given it up.
  void drop(std::uint64_t id);
  /// Returns true if this process published the block.
  [[nodiscard]] bool is_own(std::uint64_t id);
  void release(std::uint64_t id);

  /// Removes the ended process in that slot from all blocks. Requires the node's lock.
  void leave(int slot);
  /// Frees blocks that no process holds any more, and charges blocks that others hold to one of these. Requires the
  /// node's lock.
  void reclaim();

 private:
  [[nodiscard]] std::string path_of(const SharedRecord& record) const;
  /// Opens the node's control file again, for a lock of its own or to query other locks.
  [[nodiscard]] FileDescriptor control() const;
  [[nodiscard]] bool is_locked(std::uint64_t id) const;
  bool read_block(const SharedRecord& record, SharedBlock& out) const;
  SharedRecord* find(std::uint64_t id) const;
  void free(SharedRecord& record);
  bool open();

  Node& node_ = *Node::get();
  NodeState& state_ = node_.state();
  std::string folder_;
};

}  // namespace ration::sim
