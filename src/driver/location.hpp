// Finds the libraries of a machine's driver; no other code knows their places. Used by the command line and the daemon
// (machine/driver_library.hpp) and by the guard, which compiles this file in, like the book. The order is the dynamic
// linker's (ld.so(8)): it finds what a program would have loaded by itself. After the linker's places come folders of
// drivers that the linker does not know. Promises: no allocation, nothing printed, nothing loaded.
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
  char folder[PATH_MAX] = "";  ///< the folder of the object: $ORIGIN
};

/// The process and object for which a library is searched.
struct Seeker {
  const char* only = "";          ///< not empty: only this folder is searched
  const char* asked = "";         ///< a file that was asked for by its path; tried before all others
  const char* library_path = "";  ///< LD_LIBRARY_PATH as its process was started with
  SearchPaths program, object;    ///< the program itself, and its object that needs the library
};

/// Returns true to take that existing file; otherwise the search goes on.
using Take = bool(void* context, const char* path) noexcept;

/// Offers one path of `file` after the other, best first, all absolute. Returns false if none was taken.
bool look_for(const char* file, const Seeker& seeker, Take* take, void* context) noexcept;

/// Returns true if the file is one of the toolkit's stubs, made only to link with, judged without loading it.
[[nodiscard]] bool is_stub(const char* path) noexcept;
/// As is_stub(), for a loaded libcuda.so.1, which reports it itself.
[[nodiscard]] bool is_stub_driver(void* library) noexcept;

/// Reads the search paths of this process's program.
void read_program(SearchPaths& program) noexcept;
/// Reads those of the first loaded object that is linked with `file` (null: none is searched), or else of the object
/// that contains `address`. Returns false if there is neither.
bool read_object(const char* file, const void* address, SearchPaths& object) noexcept;

}  // namespace ration::driver
