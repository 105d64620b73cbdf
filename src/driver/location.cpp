#include "driver/location.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file.hpp"

namespace ration::driver {
namespace {

#if defined(__x86_64__)
#define RATION_MULTIARCH "x86_64-linux-gnu"
constexpr std::int32_t kOurLibraries = 0x0303;  // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6
#else
#define RATION_MULTIARCH "aarch64-linux-gnu"
constexpr std::int32_t kOurLibraries = 0x0a03;  // FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6
#endif

// The folders that the linker searches if its cache has no entry, followed by folders of drivers that the linker does
// not know.
constexpr const char* kFolders[] = {
    "/lib/" RATION_MULTIARCH,  // Debian, Ubuntu; the NVIDIA container toolkit puts drivers here in their images
    "/usr/lib/" RATION_MULTIARCH,
    "/lib64",  // Red Hat, SUSE, and their images
    "/usr/lib64",
    "/lib",  // Arch
    "/usr/lib",
    "/usr/lib/" RATION_MULTIARCH "/nvidia/current",  // Debian's package, behind links of update-alternatives
    "/usr/lib64/nvidia",                             // packages for Red Hat before the driver had a loader of its own
    "/usr/lib/" RATION_MULTIARCH "/nvidia",          // Jetson: L4T 36 (JetPack 6)
    "/usr/lib/" RATION_MULTIARCH "/tegra",           // Jetson: L4T before that
    "/usr/lib/wsl/lib",                              // WSL 2: in /etc/ld.so.conf.d, unless the user manages that folder
    "/run/opengl-driver/lib",                        // NixOS, which has no cache: programs name it as DT_RUNPATH
    "/usr/local/nvidia/lib64",                       // GKE; images for nvidia-docker 1 name it in LD_LIBRARY_PATH
    "/usr/local/nvidia/lib",
};

// The format of /etc/ld.so.cache that glibc writes since 2.2 (sysdeps/generic/dl-cache.h), possibly after a table of
// the former format. Offsets count from the start of this header.
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

Mapping mapped(const char* path) noexcept {
  const FileDescriptor file{::open(path, O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size <= 0) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* place = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  return place == MAP_FAILED ? Mapping{} : Mapping{place, size};
}

/// A path that is built piece by piece. A path that gets too long becomes empty.
class Path {
 public:
  void clear() noexcept { length_ = 0, whole_ = true; }
  void add(const char* text, std::size_t length) noexcept {
    whole_ = whole_ && length_ + length < sizeof text_;
    if (whole_) std::memcpy(text_ + length_, text, length), length_ += length;
  }
  void add(const char* text) noexcept { add(text, std::strlen(text)); }
  [[nodiscard]] const char* text() noexcept {
    text_[length_] = '\0';
    return whole_ ? text_ : "";
  }

 private:
  char text_[PATH_MAX];
  std::size_t length_ = 0;
  bool whole_ = true;
};

/// One search. Offers each file that exists and is not empty: an image into which a driver is mounted may have empty
/// files at the driver's paths.
class Search {
 public:
  Search(const char* file, Take* take, void* context) noexcept : file_(file), take_(take), context_(context) {}

  bool offer(const char* path) noexcept {
    struct stat status {};
    if (*path == '\0' || ::stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) return false;
    if (*path == '/') return take_(context_, path);
    char whole[PATH_MAX];
    return ::realpath(path, whole) != nullptr && take_(context_, whole);
  }

  bool try_folder(const char* folder) noexcept {
    path_.clear();
    path_.add(folder), path_.add("/"), path_.add(file_);
    return offer(path_.text());
  }

  /// Searches a list as the linker does: an empty entry is the current folder, and $ORIGIN, $LIB and $PLATFORM stand
  /// for names that depend on the machine.
  bool try_list(const char* list, const char* separators, const char* origin) noexcept {
    while (*list != '\0') {
      const std::size_t length = std::strcspn(list, separators);
      if (try_entry(list, length, origin)) return true;
      list += length;
      if (*list != '\0') ++list;
    }
    return false;
  }

  bool try_cache() noexcept {
    const Mapping cache = mapped("/etc/ld.so.cache");
    return cache.get() != nullptr && search_cache(static_cast<const char*>(cache.get()), cache.size());
  }

 private:
  bool try_entry(const char* entry, std::size_t length, const char* origin) noexcept {
    // The value of $LIB was fixed when the linker was compiled, so every usual value is tried; of these folders only
    // one exists.
    for (const char* lib : {"lib/" RATION_MULTIARCH, "lib64", "lib"}) {
      const bool varies = expand(entry, length, origin, lib);
      if (offer(path_.text())) return true;
      if (!varies) return false;
    }
    return false;
  }

  /// Expands the names in an entry. Returns true if it contains $LIB.
  bool expand(const char* entry, std::size_t length, const char* origin, const char* lib) noexcept {
    bool varies = false;
    path_.clear();
    if (length == 0) path_.add(".");
    for (std::size_t at = 0; at < length;) {
      const char* rest = entry + at;
      const std::size_t left = length - at;
      const auto is = [&](const char* name) {
        const std::size_t size = std::strlen(name);
        return left >= size && std::strncmp(rest, name, size) == 0 ? size : 0;
      };
      std::size_t taken = 0;
      if ((taken = is("$ORIGIN")) != 0 || (taken = is("${ORIGIN}")) != 0) {
        path_.add(origin);
      } else if ((taken = is("$LIB")) != 0 || (taken = is("${LIB}")) != 0) {
        path_.add(lib), varies = true;
      } else if ((taken = is("$PLATFORM")) != 0 || (taken = is("${PLATFORM}")) != 0) {
        const auto* platform = reinterpret_cast<const char*>(::getauxval(AT_PLATFORM));
        path_.add(platform != nullptr ? platform : "");
      } else {
        path_.add(rest, taken = 1);
      }
      at += taken;
    }
    path_.add("/"), path_.add(file_);
    return varies;
  }

  bool search_cache(const char* data, std::size_t size) noexcept {
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
    // The order of entries with the same name is the order of their folders in ld.so.conf.
    for (std::uint32_t i = 0; i < header.count; ++i) {
      CacheEntry entry;
      std::memcpy(&entry, base + sizeof header + i * sizeof entry, sizeof entry);
      const char* name = text(entry.name);
      const char* path = text(entry.path);
      if (entry.flags != kOurLibraries || name == nullptr || path == nullptr || *path != '/') continue;
      if (std::strcmp(name, file_) == 0 && offer(path)) return true;
    }
    return false;
  }

  const char* file_;
  Take* take_;
  void* context_;
  Path path_;
};

void copy_folder(const char* path, char (&out)[PATH_MAX]) noexcept {
  const char* slash = std::strrchr(path, '/');
  const std::size_t length = slash != nullptr ? static_cast<std::size_t>(slash - path) : 0;
  if (length >= sizeof out) return;
  std::memcpy(out, path, length);
  out[length] = '\0';
}

/// The dynamic section of a loaded object.
class Dynamic {
 public:
  explicit Dynamic(const dl_phdr_info& object) noexcept : object_(object) {
    for (int i = 0; i < object.dlpi_phnum; ++i) {
      if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
        entries_ = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    }
    for (const ElfW(Dyn)* entry = entries_; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag != DT_STRTAB) continue;
      // The entry holds an address, except in an object whose section is read-only (the vDSO), where it holds an
      // offset.
      const ElfW(Addr) place = entry->d_un.d_ptr;
      names_ = reinterpret_cast<const char*>(place < object.dlpi_addr ? place + object.dlpi_addr : place);
    }
  }

  /// Returns true if the object is linked with `file`.
  [[nodiscard]] bool needs(const char* file) const noexcept {
    bool found = false;
    for_each(DT_NEEDED, [&](const char* name) { found = found || (file != nullptr && std::strcmp(name, file) == 0); });
    return found;
  }

  void read(SearchPaths& out) const noexcept {
    bool has_runpath = false;
    for_each(DT_RPATH, [&](const char* list) { out.rpath = list; });
    for_each(DT_RUNPATH, [&](const char* list) { out.runpath = list, has_runpath = true; });
    if (has_runpath) out.rpath = "";
    if (object_.dlpi_name != nullptr && *object_.dlpi_name != '\0') {
      copy_folder(object_.dlpi_name, out.folder);
      return;
    }
    char program[PATH_MAX];  // the program itself has no name in the list
    const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    copy_folder(program, out.folder);
  }

 private:
  template <typename Action>
  void for_each(ElfW(Sxword) tag, Action action) const noexcept {
    for (const ElfW(Dyn)* entry = entries_; names_ != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == tag) action(names_ + entry->d_un.d_val);
    }
  }

  const dl_phdr_info& object_;
  const ElfW(Dyn) * entries_ = nullptr;
  const char* names_ = nullptr;
};

bool holds(const dl_phdr_info& object, const void* address) noexcept {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && wanted - (object.dlpi_addr + segment.p_vaddr) < segment.p_memsz) return true;
  }
  return false;
}

}  // namespace

bool look_for(const char* file, const Seeker& seeker, Take* take, void* context) noexcept {
  Search search{file, take, context};
  if (*seeker.only != '\0') return *seeker.only == '/' && search.try_folder(seeker.only);
  const SearchPaths& object = seeker.object;
  const SearchPaths& program = seeker.program;
  if (search.offer(seeker.asked)) return true;
  // An object's DT_RUNPATH also disables the program's DT_RPATH. (The linker also searches the paths of the objects
  // between the two, which only the linker knows.)
  if (search.try_list(object.rpath, ":", object.folder)) return true;
  if (*object.runpath == '\0' && search.try_list(program.rpath, ":", program.folder)) return true;
  if (search.try_list(seeker.library_path, ":;", program.folder)) return true;
  if (search.try_list(object.runpath, ":", object.folder)) return true;
  if (search.try_cache()) return true;
  for (const char* folder : kFolders) {
    if (search.try_folder(folder)) return true;
  }
  return false;
}

// Returns true for a stub: a file in a folder `stubs` of the toolkit (/usr/local/cuda/lib64/stubs,
// $CONDA_PREFIX/lib/stubs, or a target of a link there) whose name lacks the driver's version. (A file with the version
// is a real driver: some installations have a link to it in `stubs`.) NVML's stub prints a warning when it is called,
// and is recognised by the text of that warning in the file.
bool is_stub(const char* path) noexcept {
  char real[PATH_MAX];
  if (::realpath(path, real) == nullptr) return false;
  const char* name = std::strrchr(real, '/') + 1;
  constexpr char kFolder[] = "/stubs/";
  constexpr std::size_t kLength = sizeof kFolder - 1;
  const char* version = std::strstr(name, ".so");
  const bool bare = version != nullptr && (std::strcmp(version, ".so") == 0 || std::strcmp(version, ".so.1") == 0);
  if (bare && name - real >= static_cast<std::ptrdiff_t>(kLength) && std::memcmp(name - kLength, kFolder, kLength) == 0)
    return true;
  if (std::strncmp(name, "libnvidia-ml", 12) != 0) return false;
  constexpr std::size_t kMaxStubSize = std::size_t{1} << 20;  // stubs have 44 KB, NVML 2 MB
  constexpr char kWarning[] = "is a stub library";
  const Mapping file = mapped(real);
  return file.get() != nullptr && file.size() <= kMaxStubSize &&
         ::memmem(file.get(), file.size(), kWarning, sizeof kWarning - 1) != nullptr;
}

// Returns true if a loaded driver says that it is a stub: "the CUDA driver that the application has loaded is a stub
// library" (CUDA_ERROR_STUB_LIBRARY). The query needs no cuInit() and starts nothing.
bool is_stub_driver(void* library) noexcept {
  constexpr int kErrorStubLibrary = 34;
  auto* version = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDriverGetVersion"));
  int result = 0;
  return version != nullptr && version(&result) == kErrorStubLibrary;
}

void read_program(SearchPaths& program) noexcept {
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* out) {
        Dynamic{*object}.read(*static_cast<SearchPaths*>(out));
        return 1;  // the first object is the program
      },
      &program);
}

bool read_object(const char* file, const void* address, SearchPaths& object) noexcept {
  struct Wanted {
    const char* file;
    const void* address;
    SearchPaths* out;
  } wanted{file, address, &object};
  const auto needs_it = [](dl_phdr_info* each, std::size_t, void* context) {
    const auto& want = *static_cast<Wanted*>(context);
    const Dynamic dynamic{*each};
    if (!dynamic.needs(want.file)) return 0;
    dynamic.read(*want.out);
    return 1;
  };
  const auto holds_it = [](dl_phdr_info* each, std::size_t, void* context) {
    const auto& want = *static_cast<Wanted*>(context);
    if (!holds(*each, want.address)) return 0;
    Dynamic{*each}.read(*want.out);
    return 1;
  };
  return ::dl_iterate_phdr(needs_it, &wanted) != 0 || (address != nullptr && ::dl_iterate_phdr(holds_it, &wanted) != 0);
}

}  // namespace ration::driver
