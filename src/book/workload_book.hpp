// The book of the workload of a process: the one of its container, or the one named by its environment. Used by the
// guard, the command line and the library. Promise: no environment leads a process of a container to another book.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace ration::book {

/// The folder of ration in a container: a read-only mount directly below the root folder. If a folder lay in between, a
/// program could rename that folder.
inline constexpr const char* kContainerFolder = "/.ration";
/// The book in a container. The hook mounts it over a placeholder that is no book, so that nothing is granted if the
/// hook did not run. Nothing else makes this file.
inline constexpr const char* kContainerBook = "/.ration/book";
/// The guard in a container.
inline constexpr const char* kContainerGuard = "/.ration/guard";

/// Returns the path of the book, or nullptr if this process runs in no workload.
[[nodiscard]] inline const char* workload_book() noexcept {
  const int before = errno;
  const bool in_container = ::access(kContainerBook, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
  errno = before;
  if (in_container) return kContainerBook;
  const char* named = std::getenv("RATION_BOOK");
  return named != nullptr && *named != '\0' ? named : nullptr;
}

}  // namespace ration::book
