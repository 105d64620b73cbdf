// A dlopen() for programs on the simulated runtime: if a program opens one of NVIDIA's libraries by path, it gets the
// simulated library of the same SONAME. Without this library, the loader would map NVIDIA's library in addition,
// because it tells files apart by inode and not by name, and NVIDIA's runtime cannot start here. vLLM opens the path of
// libcudart that it finds in /proc/self/maps; other programs open the path in a wheel or a toolkit. This function has a
// preloaded library of its own, because the symbols of libcudart carry a version.
#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {
void* no_dlopen() noexcept { return nullptr; }
}  // namespace

extern "C" {
/// The next dlopen(), to which open_entry.S jumps.
[[gnu::visibility("hidden")]] void* ration_sim_next_dlopen = reinterpret_cast<void*>(&no_dlopen);
}

namespace {

using Open = void*(const char*, int);

Open* next_dlopen() noexcept {
  void* found = __atomic_load_n(&ration_sim_next_dlopen, __ATOMIC_ACQUIRE);
  if (found == reinterpret_cast<void*>(&no_dlopen)) {
    if (void* next = ::dlsym(RTLD_NEXT, "dlopen"); next != nullptr) {
      found = next;
      __atomic_store_n(&ration_sim_next_dlopen, found, __ATOMIC_RELEASE);
    }
  }
  return reinterpret_cast<Open*>(found);
}

std::string_view base_name(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

/// Returns true for names that begin like those of the simulated libraries, except the driver's.
bool may_be_simulated(std::string_view name) noexcept {
  return (name.starts_with("libcu") || name.starts_with("libnccl")) && !name.starts_with("libcuda.so") &&
         name.find(".so") != name.npos;
}

/// Returns the folder with the simulated libraries of all versions, which is two levels above this library. The text
/// ends in a slash.
std::string_view simulator_folder() noexcept {
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&no_dlopen), &info) == 0 || info.dli_fname == nullptr) return {};
  std::string_view path(info.dli_fname);
  for (int level = 0; level < 2; ++level) {
    const auto slash = path.rfind('/', path.size() - 2);
    if (slash == path.npos) return {};
    path = path.substr(0, slash + 1);
  }
  return path;
}

const char* path_of(void* handle) noexcept {
  link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

/// Removes the hash that a repaired wheel puts into the name of a library that it carries (`libcudart.faf08d9a.so.13`,
/// `libcudart-faf08d9a.so.13.0.96`).
void remove_hash(char* name) noexcept {
  char* const suffix = std::strstr(name, ".so.");
  if (suffix == nullptr) return;
  const std::string_view stem(name, static_cast<std::size_t>(suffix - name));
  const auto mark = stem.find_last_of(".-");
  if (mark == stem.npos) return;
  const std::string_view hash = stem.substr(mark + 1);
  if (hash.size() != 8 || hash.find_first_not_of("0123456789abcdef") != hash.npos) return;
  std::memmove(name + mark, suffix, std::strlen(suffix) + 1);
}

/// Opens the loaded simulated library that replaces the file at `path`, or returns null. A file `libX.so.12.4.1` has
/// the SONAME `libX.so.12.4` or `libX.so.12`.
void* open_simulated(const char* path, int mode) noexcept {
  char resolved[PATH_MAX];
  if (::realpath(path, resolved) == nullptr) return nullptr;
  const std::string_view folder = simulator_folder();
  char* const name = std::strrchr(resolved, '/') + 1;
  if (folder.empty() || !may_be_simulated(name)) return nullptr;
  remove_hash(name);
  for (char* dot = nullptr; std::strstr(name, ".so.") != nullptr; *dot = '\0') {
    if (void* handle = next_dlopen()(name, mode | RTLD_NOLOAD); handle != nullptr) {
      if (std::string_view(path_of(handle)).starts_with(folder)) return handle;
      ::dlclose(handle);
    }
    dot = std::strrchr(name, '.');
  }
  return nullptr;
}

}  // namespace

extern "C" [[gnu::visibility("hidden")]] void* ration_sim_route_dlopen(const char* file, int mode,
                                                                       const void*) noexcept {
  Open* open = next_dlopen();
  if (file == nullptr || !may_be_simulated(base_name(file))) return nullptr;
  const int saved = errno;
  void* found = nullptr;
  if (std::strchr(file, '/') != nullptr) {
    found = open_simulated(file, mode);
  } else if (void* handle = open(file, mode); handle != nullptr) {  // such as `libX.so` in LD_LIBRARY_PATH
    found = open_simulated(path_of(handle), mode);
    if (found == nullptr) return handle;
    ::dlclose(handle);
  }
  errno = saved;
  return found;
}
