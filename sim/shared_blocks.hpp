// Device memory that several processes hold: blocks made known to others by an IPC handle or by a file descriptor. Used
// by sharing.cpp, virtual_memory.cpp and the node.
//
// As the kernel driver does, a descriptor that is exported is the node's one control file, newly opened: all of them
// are one inode, and which block a descriptor stands for belongs to the open file (here: its position). The open file
// has a lock at the block's number, which the kernel drops with the descriptor's last copy, wherever that is. Each
// block is described in a file of its own in the node's folder; its owner and importers are listed in the node's state,
// by the slots of their processes, and leave it with these. Its granules are the block's own in the owner table. It is
// freed when its owner has given it up, or is dead, no importer lives and no process has such a lock.
//
// NVML counts what a client's own objects hold (open-gpu-kernel-modules 570, gpu_rmapi.c): a block counts for its owner
// until that one frees it or ends, then for an importer, or for no process while only descriptors hold it.
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
  /// Returns null if the node's folder cannot be written.
  static SharedBlocks* get();

  /// Makes granules of this process available to others. Returns 0 if there is no room for another block.
  std::uint64_t publish(int device, const Granules& granules, std::uint64_t size);
  /// Returns a descriptor that keeps the block alive until its last copy is closed. -1: the block is gone.
  int hold(std::uint64_t id, SharedBlock& out);
  /// Makes this process a holder of the block until release(); it may become its owner. Returns false if the block is
  /// gone.
  bool import(std::uint64_t id, SharedBlock& out);
  /// Finds the block of a descriptor from hold(). Returns false if it is none.
  bool identify(int descriptor, std::uint64_t& id) const;
  /// Gives the block up as its owner: it is freed now or with its last holder.
  void drop(std::uint64_t id);
  /// Returns true if this process published it.
  [[nodiscard]] bool is_own(std::uint64_t id);
  void release(std::uint64_t id);

  /// Removes the process in that slot, which has ended, from all blocks. Requires the node's lock.
  void leave(int slot);
  /// Frees blocks that no process holds any more, and charges blocks that others hold to one of them. Under the node's
  /// lock.
  void reclaim();

 private:
  [[nodiscard]] std::string path_of(const SharedRecord& record) const;
  /// Opens the node's control file again: for a lock of its own, or to query those of others.
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
