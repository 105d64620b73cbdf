// Finds the libraries of a machine's driver; no other code knows where they lie. Used by the command line and the
// daemon (machine/driver_library.hpp) and by the guard, into which this file is compiled, as the book is. The order is
// the dynamic linker's (ld.so(8)), so the search finds what a program would have loaded by itself. After the linker's
// places come folders of drivers that the linker does not know. Promise: the search allocates, prints and loads
// nothing.
#pragma once

#include <climits>
#include <cstddef>

namespace ration::driver {

inline constexpr const char* kDriverFile = "libcuda.so.1";
inline constexpr const char* kNvmlFile = "libnvidia-ml.so.1";

/// The library search paths of an object of a process.
struct SearchPaths {
  const char* rpath = "";      ///< DT_RPATH; empty if there is a DT_RUNPATH, which disables it
  const char* runpath = "";    ///< DT_RUNPATH
  char folder[PATH_MAX] = "";  ///< the object's folder, for $ORIGIN
};

/// The process and the object that need a library.
struct Seeker {
  const char* only = "";          ///< the only folder to search; empty for all
  const char* asked = "";         ///< a file requested by its path, which is tried first; empty for none
  const char* library_path = "";  ///< LD_LIBRARY_PATH at the start of the process
  SearchPaths program, object;    ///< the program itself, and the object that needs the library
};

/// A function that returns true to take an existing file, or false to continue the search.
using Take = bool(void* context, const char* path) noexcept;

/// Offers the paths of `file` one after the other, best first, all absolute. Returns false if none was taken.
bool look_for(const char* file, const Seeker& seeker, Take* take, void* context) noexcept;

/// Returns true if the file is one of the toolkit's stubs, which serve only to link. Does not load the file.
[[nodiscard]] bool is_stub(const char* path) noexcept;
/// Returns true if a loaded libcuda.so.1 is a stub, which it reports itself.
[[nodiscard]] bool is_stub_driver(void* library) noexcept;

/// Reads the search paths of this process's program.
void read_program(SearchPaths& program) noexcept;
/// Reads the search paths of the first loaded object that is linked with `file`. If `file` is null, or no object is
/// linked with it, reads those of the object that contains `address`. Returns false if there is no such object either.
bool read_object(const char* file, const void* address, SearchPaths& object) noexcept;

}  // namespace ration::driver
