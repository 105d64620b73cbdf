// The environment of the guard: the RATION_* variables as they were when the library was loaded, and the container's
// book. Used by everything in the guard. Promises: the copy is made once, so that a program that later clears its
// environment, or overwrites it with a process title, stays governed; only a program that records itself changes the
// copy; no file is read; no output; nothing is allocated except room for LD_LIBRARY_PATH.
#pragma once

#include <climits>

namespace ration::guard {

/// The kind of call sites that the events of a recording have.
enum class RecordedSites { kNone, kNative, kPython };

struct Environment {
  char book[PATH_MAX];         ///< the workload's book: the container's, or the file named by RATION_BOOK
  char driver_path[PATH_MAX];  ///< RATION_DRIVER_PATH: the folder of the real driver; empty if unset
  char record[PATH_MAX];       ///< RATION_RECORD: the folder of a recording's parts; empty if unset
  RecordedSites record_sites;  ///< RATION_RECORD_SITES: native or python
  const char* library_path;    ///< LD_LIBRARY_PATH, which the dynamic linker also reads only once
  bool governed;               ///< true if a book exists; without a book every call goes straight to the driver
};

[[nodiscard]] const Environment& environment() noexcept;
/// Sets `record` for this process and the children that it forks. An empty path removes the value.
void set_record_folder(const char* folder) noexcept;

}  // namespace ration::guard
