// Locks of single bytes of a file, by which other processes see that a process lives. Used by the book and by the
// simulator.
//
// Each lock belongs to an open file description, and the kernel drops it with the last reference to that description.
// The last reference here is a mapping that no child inherits. So the lock lasts until the process ends or executes
// another program, holds in every pid namespace, never counts for a later process, and survives a program that closes
// all descriptors. Promise: no allocation.
#pragma once

#include <cstdint>

#include "base/file.hpp"

namespace ration {

/// Takes the lock with the open file description of `file`. Returns false if another description has it.
[[nodiscard]] bool lock_byte(int file, std::uint32_t byte) noexcept;
/// Takes a shared lock, which several processes can hold at once; `file` must be open at least for reading.
[[nodiscard]] bool share_byte(int file, std::uint32_t byte) noexcept;
void unlock_byte(int file, std::uint32_t byte) noexcept;
/// Returns true if another open file description has the lock, or if the system does not report it.
[[nodiscard]] bool byte_is_locked(int file, std::uint32_t byte) noexcept;
/// Keeps the open file description of `file` with its locks until this process ends or executes another program.
[[nodiscard]] Mapping keep_open(int file) noexcept;

}  // namespace ration
