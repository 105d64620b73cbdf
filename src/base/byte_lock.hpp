// Locks of single bytes of a file, by which other processes see that a process lives. Used by the book and by the
// simulator.
//
// Each lock belongs to an open file description, and the kernel drops it with the last reference to that description.
// The last reference here is a mapping that no child inherits. So the lock lasts until the process ends or executes
// another program, holds in every pid namespace, never counts for a later process, and survives a program that closes
// all descriptors. On a filesystem whose mappings refer to another file (overlayfs), the last reference is a descriptor
// that a child closes when it starts; there, the lock ends when the program closes all descriptors. Promise: no
// allocation, except by pthread_atfork() on such a filesystem.
#pragma once

#include <cstdint>
#include <utility>

#include "base/file.hpp"

namespace ration {

/// Takes the lock with the open file description of `file`. Returns false if another description has it.
[[nodiscard]] bool lock_byte(int file, std::uint32_t byte) noexcept;
/// Takes a shared lock, which several processes can hold at once; `file` must be open at least for reading.
[[nodiscard]] bool share_byte(int file, std::uint32_t byte) noexcept;
void unlock_byte(int file, std::uint32_t byte) noexcept;
/// Returns true if another open file description has the lock, or if the system does not report it.
[[nodiscard]] bool byte_is_locked(int file, std::uint32_t byte) noexcept;

/// An owner of what keeps a lock of this process. An owner whose bytes are all zero keeps nothing.
class LockKeeper {
 public:
  LockKeeper() noexcept = default;
  LockKeeper(LockKeeper&& other) noexcept
      : mapping_(std::move(other.mapping_)), descriptor_(std::exchange(other.descriptor_, 0)) {}
  LockKeeper& operator=(LockKeeper&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~LockKeeper();
  [[nodiscard]] explicit operator bool() const noexcept { return mapping_.get() != nullptr || descriptor_ != 0; }
  /// Forgets the lock in a child, which has neither the mapping nor the descriptor of its parent.
  void forget() noexcept;

 private:
  friend LockKeeper keep_locked(FileDescriptor, std::uint32_t, FileDescriptor) noexcept;
  Mapping mapping_;
  int descriptor_ = 0;  // 0: none
};

/// Keeps the lock of `byte`, which `file` has, until this process ends or executes another program, or until the owner
/// ends. Tries the filesystem with `other`, another open file description of the same file. Returns an empty owner if
/// the system does not permit it.
[[nodiscard]] LockKeeper keep_locked(FileDescriptor file, std::uint32_t byte, FileDescriptor other) noexcept;
/// Returns true if a program that closes all descriptors keeps its locks on the file of `file`, which must be open for
/// reading and writing. Takes the lock of `byte` for the time of the call, with `other`, another open file description.
[[nodiscard]] bool mapping_keeps_lock(int file, std::uint32_t byte, FileDescriptor other) noexcept;

}  // namespace ration
