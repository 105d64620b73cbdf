// A library that finds `neighbour` beside it by its own RUNPATH: libc must still see it as the caller of dlopen.
#include <dlfcn.h>

extern "C" [[gnu::visibility("default")]] void* bare_open(const char* file) {
  void* volatile handle = ::dlopen(file, RTLD_NOW);  // no tail call: this library is to be the caller
  return handle;
}
