// Locks of single bytes of a file, by which others see that a process lives. Used by the ledger and by the simulator.
//
// Each is a lock of an open file description, which the kernel drops with the last reference to it; that reference is a
// mapping which no child inherits. So it lasts until the process ends or executes another program, holds in every pid
// namespace, is never taken for a later process's, and survives a program that closes all descriptors.
// Promise: no allocation.
#pragma once

#include <cstdint>

#include "base/file.hpp"

namespace ration {

/// Takes the lock with the open file description of `file`. False: another has it.
[[nodiscard]] bool lock_byte(int file, std::uint32_t byte) noexcept;
/// Takes the lock beside others who take it so, with a file that is open for reading at least.
[[nodiscard]] bool share_byte(int file, std::uint32_t byte) noexcept;
void unlock_byte(int file, std::uint32_t byte) noexcept;
/// Whether another open file description has the lock; also where the system does not tell.
[[nodiscard]] bool byte_is_locked(int file, std::uint32_t byte) noexcept;
/// Keeps the open file description of `file`, and so its locks, until this process ends or executes another program.
[[nodiscard]] Mapping keep_open(int file) noexcept;

}  // namespace ration
