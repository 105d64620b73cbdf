#include "shim/driver_location.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file.hpp"
#include "shim/environment.hpp"

namespace ration::shim {
namespace {

struct Wanted {
  const char* file;
  char* path;
  std::size_t size;
};

/// Whether `path` is a file, and not one of the shims (a container may have put them where the driver should be).
bool is_real_library(const char* path, const char* file) noexcept {
  struct stat candidate {};
  struct stat own {};
  if (::stat(path, &candidate) != 0 || !S_ISREG(candidate.st_mode) || candidate.st_size == 0) return false;
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&is_real_library), &info) == 0 || info.dli_fname == nullptr) return true;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const int folder = slash != nullptr ? static_cast<int>(slash + 1 - info.dli_fname) : 0;
  char beside[PATH_MAX];
  if (std::snprintf(beside, sizeof beside, "%.*s%s", folder, info.dli_fname, file) >= PATH_MAX) return true;
  return ::stat(beside, &own) != 0 || own.st_dev != candidate.st_dev || own.st_ino != candidate.st_ino;
}

bool try_folder(const char* folder, std::size_t length, const Wanted& wanted) noexcept {
  if (length == 0 || folder[0] != '/')
    return false;  // an empty or relative entry means the current folder: nobody's driver
  const int written = std::snprintf(wanted.path, wanted.size, "%.*s/%s", static_cast<int>(length), folder, wanted.file);
  return written > 0 && static_cast<std::size_t>(written) < wanted.size && is_real_library(wanted.path, wanted.file);
}

bool try_library_path(const Wanted& wanted) noexcept {
  const char* entry = ::getenv("LD_LIBRARY_PATH");
  while (entry != nullptr && *entry != '\0') {
    const std::size_t length = std::strcspn(entry, ":;");
    if (try_folder(entry, length, wanted)) return true;
    entry += length;
    if (*entry != '\0') ++entry;
  }
  return false;
}

// /etc/ld.so.cache as glibc writes it since 2.2 (sysdeps/generic/dl-cache.h), possibly behind a table of the format
// before it. Offsets count from the start of the header.
struct CacheHeader {
  char magic[20];  // "glibc-ld.so.cache1.1"
  std::uint32_t count;
  std::uint32_t strings_size;
  std::uint32_t unused[5];
};
struct CacheEntry {
  std::int32_t flags;
  std::uint32_t name, path;
  std::uint32_t os_version;
  std::uint64_t hardware;
};
static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);

#if defined(__x86_64__)
constexpr std::int32_t kOurLibraries = 0x0303;  // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
#else
constexpr std::int32_t kOurLibraries = 0x0a03;  // FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6
#endif

bool search_cache(const char* data, std::size_t size, const Wanted& wanted) noexcept {
  constexpr char kOldMagic[] = "ld.so-1.7.0";
  std::size_t start = 0;
  if (size >= 16 && std::memcmp(data, kOldMagic, sizeof kOldMagic - 1) == 0) {
    std::uint32_t old_count = 0;
    std::memcpy(&old_count, data + 12, sizeof old_count);
    start = (16 + std::size_t{old_count} * 12 + 7) & ~std::size_t{7};
  }
  if (start > size || size - start < sizeof(CacheHeader)) return false;
  const char* base = data + start;
  const std::size_t room = size - start;
  CacheHeader header;
  std::memcpy(&header, base, sizeof header);
  if (std::memcmp(header.magic, "glibc-ld.so.cache1.1", sizeof header.magic) != 0) return false;
  if (header.count > (room - sizeof header) / sizeof(CacheEntry)) return false;
  const auto text = [&](std::uint32_t offset) -> const char* {
    return offset < room && std::memchr(base + offset, '\0', room - offset) != nullptr ? base + offset : nullptr;
  };
  for (std::uint32_t i = 0; i < header.count; ++i) {
    CacheEntry entry;
    std::memcpy(&entry, base + sizeof header + i * sizeof entry, sizeof entry);
    const char* name = text(entry.name);
    const char* path = text(entry.path);
    if (entry.flags != kOurLibraries || name == nullptr || path == nullptr) continue;
    if (std::strcmp(name, wanted.file) != 0 || std::strlen(path) >= wanted.size) continue;
    if (!is_real_library(path, wanted.file)) continue;
    std::strcpy(wanted.path, path);
    return true;
  }
  return false;
}

bool try_loader_cache(const Wanted& wanted) noexcept {
  const FileDescriptor file{::open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size <= 0) return false;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* place = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (place == MAP_FAILED) return false;
  const Mapping cache{place, size};
  return search_cache(static_cast<const char*>(cache.get()), size, wanted);
}

// Where drivers lie that no cache knows: distributions, containers, WSL, NixOS.
constexpr const char* kFolders[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
#else
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
};

bool locate(const Wanted& wanted) noexcept {
  const char* chosen = environment().driver_path;
  if (*chosen != '\0') return try_folder(chosen, std::strlen(chosen), wanted);
  if (try_library_path(wanted) || try_loader_cache(wanted)) return true;
  for (const char* folder : kFolders) {
    if (try_folder(folder, std::strlen(folder), wanted)) return true;
  }
  return false;
}

}  // namespace

bool locate_driver(char* path, std::size_t size) noexcept { return locate({"libcuda.so.1", path, size}); }
bool locate_nvml(char* path, std::size_t size) noexcept { return locate({"libnvidia-ml.so.1", path, size}); }

}  // namespace ration::shim
