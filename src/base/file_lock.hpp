// Locks of whole files between processes (flock): for a place that one process at a time may have. Used by the daemon.
// Promise: what stands at the path is only opened and locked, whatever it is; a link is not followed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.hpp"

namespace ration {

struct FileLock {
  FileDescriptor file;  ///< held while this lives; none: the lock was not taken
  bool taken = false;   ///< by another process; else, without `file`, there can be no lock at that place
  std::string path{};

  /// Whether it still is the file at its path: somebody may have removed it, or put another one there.
  [[nodiscard]] bool in_place() const noexcept;
};

/// Makes the file where it is not there. Does not wait.
[[nodiscard]] FileLock lock_file(const std::string& path);
/// Whether another process has that lock.
[[nodiscard]] bool is_locked(const std::string& path);
/// Who has it, as this pid namespace numbers processes. Absent: nobody, or the system does not tell.
[[nodiscard]] std::optional<std::int32_t> lock_holder(const std::string& path);

}  // namespace ration
