// Locks of whole files between processes (flock), for a role that only one process at a time may have. Used by the
// daemon. Promise: whatever the file is, it is only opened and locked; a link is not followed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.hpp"

namespace ration {

struct FileLock {
  FileDescriptor file;  ///< holds the lock while it is open; closed if this process did not get the lock
  bool taken = false;   ///< true if another process has the lock; false also if the file cannot be locked
  std::string path{};

  /// Returns true if the locked file is still at its path.
  [[nodiscard]] bool in_place() const noexcept;
};

/// Locks the file, and makes it if it is missing. Returns at once.
[[nodiscard]] FileLock lock_file(const std::string& path);
/// Returns true if another process has the lock.
[[nodiscard]] bool is_locked(const std::string& path);
/// Returns the process that has the lock, by its number in this pid namespace; absent if none has it, or if the system
/// does not report it.
[[nodiscard]] std::optional<std::int32_t> lock_holder(const std::string& path);

}  // namespace ration
