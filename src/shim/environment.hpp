// What this process was told: RATION_* variables as they were when the library was loaded, and its container's book.
// Used by everything in the shim. Promise: copied once, so that a program that clears its environment later (or writes
// its title there) stays governed; no file is read, no output; nothing is allocated but room for LD_LIBRARY_PATH.
#pragma once

#include <climits>

namespace ration::shim {

struct Environment {
  char book[PATH_MAX];         ///< the workload's book: its container's, or the one that RATION_BOOK names
  char driver_path[PATH_MAX];  ///< RATION_DRIVER_PATH: folder of the real driver; empty = find it
  const char* library_path;    ///< LD_LIBRARY_PATH, which the linker reads once, too
  bool governed;               ///< there is such a book: without it every call passes straight through
};

[[nodiscard]] const Environment& environment() noexcept;

}  // namespace ration::shim
