// The choice of the dlopen and dlmopen calls that lead to the guard instead of libc. Such a call requests the driver or
// NVML in a way for which the loader would not return the library that is already loaded: as `libcuda.so`, by an
// absolute or relative path, by a symlink, or in a new namespace. Every other call goes to libc unchanged. Called by
// open_entry.S.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "guard/driver_location.hpp"
#include "guard/elf_peek.hpp"
#include "guard/environment.hpp"
#include "guard/resolve.hpp"

namespace {
// Stands in for libc's function until that function is found.
void* no_dlopen() noexcept { return nullptr; }
}  // namespace

extern "C" {
[[gnu::visibility("hidden")]] void* ration_real_dlopen = reinterpret_cast<void*>(&no_dlopen);
[[gnu::visibility("hidden")]] void* ration_real_dlmopen = reinterpret_cast<void*>(&no_dlopen);
}

namespace ration::guard {
namespace {

using OpenFunction = void*(const char*, int);
using OpenInFunction = void*(Lmid_t, const char*, int);

// Returns libc's function `name`, and stores it in `place` at the first call. Threads that race for the first call
// store the same function.
template <typename Function>
Function* next_function(const char* name, void*& place) noexcept {
  void* found = __atomic_load_n(&place, __ATOMIC_ACQUIRE);
  if (found == reinterpret_cast<void*>(&no_dlopen)) {
    void* next = ::dlsym(RTLD_NEXT, name);
    if (next != nullptr) {
      found = next;
      __atomic_store_n(&place, found, __ATOMIC_RELEASE);
    }
  }
  return reinterpret_cast<Function*>(found);
}

OpenFunction* libc_dlopen() noexcept { return next_function<OpenFunction>("dlopen", ration_real_dlopen); }
OpenInFunction* libc_dlmopen() noexcept { return next_function<OpenInFunction>("dlmopen", ration_real_dlmopen); }

const char* base_name(const char* path) noexcept {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

/// Returns the library that has this file name, or null.
const char* wrapped_by_name(const char* file) noexcept {
  if (is_version_of(file, kDriverFile)) return kDriverFile;
  if (is_version_of(file, kNvmlFile)) return kNvmlFile;
  return nullptr;
}

/// Returns the library whose SONAME the file at `path` has, or null. Recognises a copy under another name, or one
/// outside the usual folders.
const char* wrapped_by_content(const char* path) noexcept {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return nullptr;
  const char* library = wrapped_by_soname([file](void* to, unsigned long length, unsigned long offset) {
    return ::pread(file, to, length, static_cast<off_t>(offset));
  });
  ::close(file);
  return library;
}

/// Returns the library that `file` requests, by the library's name or by a path to its file, or null. Returns null for
/// a path that does not exist, so that libc reports the error.
const char* wrapped_by(const char* file) noexcept {
  if (file == nullptr || *file == '\0') return nullptr;
  const char* named = wrapped_by_name(base_name(file));
  if (std::strchr(file, '/') == nullptr) return named;
  if (std::strchr(file, '$') != nullptr) return named;  // $ORIGIN and $LIB, which only libc can expand
  const int saved = errno;
  char resolved[PATH_MAX];
  const bool is_in_a_folder = ::realpath(file, resolved) != nullptr;
  const bool exists = is_in_a_folder || ::access(file, F_OK) == 0;
  if (named == nullptr && is_in_a_folder) named = wrapped_by_name(base_name(resolved));
  if (named == nullptr && exists) named = wrapped_by_content(file);
  errno = saved;
  return exists ? named : nullptr;
}

/// Returns the length of the folder part of `path`, including its slash.
std::size_t folder_length(const char* path) noexcept { return static_cast<std::size_t>(base_name(path) - path); }

const char* own_path() noexcept {
  static char path[PATH_MAX];
  static std::atomic<bool> known{false};
  if (!known.load(std::memory_order_acquire)) {
    Dl_info info;
    if (::dladdr(reinterpret_cast<void*>(&own_path), &info) == 0 || info.dli_fname == nullptr) return nullptr;
    if (std::strlen(info.dli_fname) >= sizeof path) return nullptr;
    std::strcpy(path, info.dli_fname);
    known.store(true, std::memory_order_release);
  }
  return path;
}

/// Returns true if the caller is a guard, the real driver or the real NVML; such a caller must get the real library.
/// For example, the driver's libcuda.so.1 under WSL 2 is a loader that opens the actual driver, a file of the same name
/// in another folder (/usr/lib/wsl/drivers/*/libcuda.so.1.1); if the loader got the guard, it would call itself for
/// ever.
bool is_wrapped_library(const void* caller) noexcept {
  Dl_info info;
  return ::dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         wrapped_by_name(base_name(info.dli_fname)) != nullptr;
}

/// Writes the path of the guard for `library`: this file, or its neighbour in this folder.
bool shim_file(const char* library, char (&out)[PATH_MAX]) noexcept {
  const char* own = own_path();
  if (own == nullptr) return false;
  if (library == kDriverFile) {
    std::strcpy(out, own);
    return true;
  }
  const std::size_t length = folder_length(own);
  if (length + sizeof "libnvidia-ml.so.1" > sizeof out) return false;
  std::memcpy(out, own, length);
  std::strcpy(out + length, "libnvidia-ml.so.1");
  return true;
}

// Removes RTLD_DEEPBIND: with this flag the guard would call libc's functions directly, not those of the program's own
// preloads.
int shim_mode(int mode) noexcept { return mode & ~RTLD_DEEPBIND; }

}  // namespace

void* open_real_library(const char* path) noexcept { return libc_dlopen()(path, RTLD_NOW | RTLD_LOCAL); }

}  // namespace ration::guard

extern "C" {

[[gnu::visibility("hidden")]] void* ration_route_dlopen(const char* file, int mode, const void* caller) noexcept {
  using namespace ration::guard;
  OpenFunction* open = libc_dlopen();
  if (!environment().governed) return nullptr;
  const char* library = wrapped_by(file);
  char path[PATH_MAX];
  if (library == nullptr || is_wrapped_library(caller) || !shim_file(library, path)) return nullptr;
  if (library == kDriverFile) note_request(std::strchr(file, '/') != nullptr ? file : nullptr, caller);
  return open(path, shim_mode(mode));
}

struct RoutedOpen {
  void* handle;
  Lmid_t space;
};

[[gnu::visibility("hidden")]] RoutedOpen ration_route_dlmopen(Lmid_t space, const char* file, int mode,
                                                              const void* caller) noexcept {
  using namespace ration::guard;
  OpenInFunction* open = libc_dlmopen();
  if (!environment().governed) return {nullptr, space};
  char path[PATH_MAX];
  if (const char* library = wrapped_by(file); library != nullptr) {
    if (is_wrapped_library(caller) || !shim_file(library, path)) return {nullptr, space};
    if (library == kDriverFile) note_request(std::strchr(file, '/') != nullptr ? file : nullptr, caller);
    return {open(space == LM_ID_NEWLM ? LM_ID_BASE : space, path, shim_mode(mode)), space};
  }
  // A new namespace starts without the preload, so the guard is loaded into it first. A DT_NEEDED libcuda.so.1 then
  // finds the guard there.
  if (space != LM_ID_NEWLM || !shim_file(kDriverFile, path)) return {nullptr, space};
  void* shim = open(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
  Lmid_t fresh = LM_ID_NEWLM;
  if (shim == nullptr || ::dlinfo(shim, RTLD_DI_LMID, &fresh) != 0) return {nullptr, space};
  void* nvml = shim_file(kNvmlFile, path) ? open(fresh, path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (file == nullptr || std::strchr(file, '/') == nullptr) return {nullptr, fresh};
  // A path needs no RUNPATH of the caller, so the call can be made here and the namespace closed if it fails.
  void* handle = open(fresh, file, mode);
  if (handle != nullptr) return {handle, fresh};
  if (nvml != nullptr) ::dlclose(nvml);
  ::dlclose(shim);
  return {nullptr, LM_ID_NEWLM};  // libc reports the error
}

}  // extern "C"
