// Device memory that several processes hold: blocks made known to others by an IPC handle or by a file descriptor.
// Used by sharing.cpp, virtual_memory.cpp and the node.
//
// As the kernel driver does, a descriptor that is exported is the node's one control file, newly opened: all of them
// are one inode, and which block a descriptor stands for belongs to the open file (here: its position). The open file
// has a lock at the block's number, which the kernel drops with the descriptor's last copy, wherever that is. What a
// block is, stands in a file of its own in the node's folder; its owner and importers stand in the node's state, by the
// slots of their processes, and leave it with these. Its granules are the block's own in the owner table. It is freed
// when its owner has given it up, or is dead, no importer lives and nobody has such a lock.
//
// NVML counts what a client's own objects hold (open-gpu-kernel-modules 570, gpu_rmapi.c): a block is its owner's until
// that one frees it or ends, then an importer's, or nobody's while only descriptors hold it.
#pragma once

#include <cstdint>
#include <string>

#include "node.hpp"

namespace ration::sim {

struct SharedRecord;

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
  /// This process holds the block from now on, until release(); it may become its own. False: the block is gone.
  bool import(std::uint64_t id, SharedBlock& out);
  /// The block that a descriptor from hold() stands for. False: it is none.
  bool identify(int descriptor, std::uint64_t& id) const;
  /// The owner gave it up: freed now or when its last holder is gone.
  void drop(std::uint64_t id);
  /// Whether this process published it.
  [[nodiscard]] bool is_own(std::uint64_t id);
  void release(std::uint64_t id);

  /// The process in that slot has ended: it owns and imports nothing any more. Under the node's lock.
  void leave(int slot);
  /// Frees what nobody holds any more, and charges what others hold to one of them. Under the node's lock.
  void reclaim();

 private:
  [[nodiscard]] std::string path_of(const SharedRecord& record) const;
  /// The node's control file, newly opened: for a lock of its own, or to ask for those of others.
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
