// Where the libraries of a machine's driver lie: the one place that knows. Used by the command line and the daemon
// (machine/driver_library.hpp) and by the shim, which carries this file as it carries the book.
// The order is the dynamic linker's (ld.so(8)): what a program would have loaded by itself is what is found for it.
// Behind the linker's places come folders in which drivers lie that no linker was told of.
// Promises: no allocation, nothing printed, nothing loaded.
#pragma once

#include <climits>
#include <cstddef>

namespace ration::driver {

inline constexpr const char* kDriverFile = "libcuda.so.1";
inline constexpr const char* kNvmlFile = "libnvidia-ml.so.1";

/// What an object of a process says about where its libraries are.
struct SearchPaths {
  const char* rpath = "";      ///< DT_RPATH; none where a DT_RUNPATH is beside it, which switches it off
  const char* runpath = "";    ///< DT_RUNPATH
  char folder[PATH_MAX] = "";  ///< in which the object lies: $ORIGIN
};

/// For whom a library is looked for.
struct Seeker {
  const char* only = "";          ///< not empty: this folder, and no other
  const char* asked = "";         ///< a file that was asked for by its path: before all others
  const char* library_path = "";  ///< LD_LIBRARY_PATH as its process was started with
  SearchPaths program, object;    ///< the program itself, and the object in it that needs the library
};

/// Says whether it takes that file, which is there: if not, the search goes on.
using Take = bool(void* context, const char* path) noexcept;

/// Offers one place of `file` after the other, best first and by absolute path. False: nothing was taken.
bool look_for(const char* file, const Seeker& seeker, Take* take, void* context) noexcept;

/// Whether the file is one of the toolkit's, made to link with, which can do nothing: by what can be seen of it without
/// loading it.
[[nodiscard]] bool is_stub(const char* path) noexcept;
/// The same of a libcuda.so.1 that is loaded, by its own word.
[[nodiscard]] bool is_stub_driver(void* library) noexcept;

/// The paths of this process's program.
void read_program(SearchPaths& program) noexcept;
/// Those of the first object, in the order of their loading, that is linked with `file` (null: none is looked for); or
/// else of the one in which `address` lies. False: there is neither.
bool read_object(const char* file, const void* address, SearchPaths& object) noexcept;

}  // namespace ration::driver
