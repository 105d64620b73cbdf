// Locks of whole files between processes (flock), for a role that one process at a time may have. Used by the daemon.
// Promise: the file at the path is only opened and locked, whatever it is; a link is not followed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.hpp"

namespace ration {

struct FileLock {
  FileDescriptor file;  ///< held while this lives; none: the lock was not taken
  bool taken = false;   ///< another process has it; false without `file`: no lock is possible at that place
  std::string path{};

  /// Returns true if it is still the file at its path, and was neither removed nor replaced.
  [[nodiscard]] bool in_place() const noexcept;
};

/// Locks the file, and makes it if it is missing. Does not wait.
[[nodiscard]] FileLock lock_file(const std::string& path);
/// Returns true if another process has that lock.
[[nodiscard]] bool is_locked(const std::string& path);
/// Returns the process that has the lock, by its number in this pid namespace. Absent: none has it, or the system does
/// not tell.
[[nodiscard]] std::optional<std::int32_t> lock_holder(const std::string& path);

}  // namespace ration
