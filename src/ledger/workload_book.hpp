// Which workload a process runs in: the book that its container has, or the one that its environment names. Used by the
// guard, the command line and the library. Promise: no environment leads a process of a container to another book.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace ration::ledger {

/// What of ration a container has: a read-only mount at the top, since a folder above a mount can be renamed.
inline constexpr const char* kContainerFolder = "/.ration";
/// Where a container has its book. Its hook mounts the book over a placeholder that is no book, so that nothing is
/// granted where the hook did not run. Nothing else makes this file.
inline constexpr const char* kContainerBook = "/.ration/book";
/// Where it has the guard.
inline constexpr const char* kContainerGuard = "/.ration/guard";

/// The path of the book; nullptr: this process runs in no workload.
[[nodiscard]] inline const char* workload_book() noexcept {
  const int before = errno;
  const bool in_container = ::access(kContainerBook, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
  errno = before;
  if (in_container) return kContainerBook;
  const char* named = std::getenv("RATION_BOOK");
  return named != nullptr && *named != '\0' ? named : nullptr;
}

}  // namespace ration::ledger
