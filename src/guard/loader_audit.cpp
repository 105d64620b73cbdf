// The audit library that the dynamic linker consults (rtld-audit(7)). A look-up of a name in the real driver or NVML
// gets the guard's function, whichever dlopen(), namespace or file name opened the library. The audit library
// recognises the real ones by their SONAMEs and the guards by their inodes. `ration run` names it in LD_AUDIT, beside
// the guards in LD_PRELOAD.
//
// The audit library lives in a linker namespace of its own in every process of a workload. Since it has no libc, it
// costs each process one page. The linker calls it under the linker's lock, and only for look-ups in the two libraries.
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdint>

#include "guard/elf_peek.hpp"

#define RATION_AUDIT extern "C" [[gnu::visibility("default")]]

namespace {

using ration::guard::is_version_of;

long system_call(long number, long first, long second, long third, long fourth = 0) {
#if defined(__x86_64__)
  long result = 0;
  register long fourth_place __asm__("r10") = fourth;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth_place)
                   : "rcx", "r11", "memory");
  return result;
#else
  register long call __asm__("x8") = number;
  register long result __asm__("x0") = first;
  register long second_place __asm__("x1") = second;
  register long third_place __asm__("x2") = third;
  register long fourth_place __asm__("x3") = fourth;
  __asm__ volatile("svc 0"
                   : "+r"(result)
                   : "r"(call), "r"(second_place), "r"(third_place), "r"(fourth_place)
                   : "memory");
  return result;
#endif
}

long as_word(const void* pointer) { return reinterpret_cast<long>(pointer); }

/// A file that is open for reading, or none.
class File {
 public:
  explicit File(const char* path)
      : descriptor_(system_call(SYS_openat, AT_FDCWD, as_word(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (is_open()) system_call(SYS_close, descriptor_, 0, 0);
  }

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] long read(void* to, unsigned long length) const {
    return system_call(SYS_read, descriptor_, as_word(to), static_cast<long>(length));
  }
  long operator()(void* to, unsigned long length, unsigned long offset) const {
    return system_call(SYS_pread64, descriptor_, as_word(to), static_cast<long>(length), static_cast<long>(offset));
  }

 private:
  long descriptor_;
};

/// The identity of the file behind a path.
struct Inode {
  dev_t device = 0;
  ino_t number = 0;  ///< 0 if there is none
};

bool same(const Inode& one, const Inode& other) { return one.device == other.device && one.number == other.number; }

Inode inode_of(const char* path) {
  struct stat status;
  if (system_call(SYS_newfstatat, AT_FDCWD, as_word(path), as_word(&status), 0) != 0) return {};
  return {status.st_dev, status.st_ino};
}

/// The functions that an object exports.
struct Exports {
  const char* names = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const std::uint32_t* hash = nullptr;  // DT_GNU_HASH
  const char* soname = "";
};

constexpr unsigned kLongestPath = 4096;

struct Wrapped {
  const char* soname;  ///< the SONAME without a version
  const char* file;    ///< the guard's file in the folder of this library
  Inode inode;
  const link_map* shim;
  Exports exports;
  char path[kLongestPath];
};
Wrapped wrapped[] = {{ration::guard::kDriverFile, "libcuda.so.1", {}, nullptr, {}, {}},
                     {ration::guard::kNvmlFile, "libnvidia-ml.so.1", {}, nullptr, {}, {}}};

/// The cookies of objects: the kind of an object decides the answers that it gets.
enum Cookie : std::uintptr_t { kProgram = 0, kFirstShim = 1, kFirstReal = 3 };

// Returns the address that an entry of a dynamic section stands for. A read-only section (the vDSO's) has offsets, any
// other has addresses.
template <typename Pointer>
Pointer address(const link_map* object, const ElfW(Dyn) * entry) {
  const ElfW(Addr) value = entry->d_un.d_ptr;
  return reinterpret_cast<Pointer>(value < object->l_addr ? value + object->l_addr : value);
}

Exports exports_of(const link_map* object) {
  Exports out;
  const ElfW(Dyn)* soname = nullptr;
  for (const ElfW(Dyn)* entry = object->l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) out.names = address<const char*>(object, entry);
    if (entry->d_tag == DT_SYMTAB) out.symbols = address<const ElfW(Sym)*>(object, entry);
    if (entry->d_tag == DT_GNU_HASH) out.hash = address<const std::uint32_t*>(object, entry);
    if (entry->d_tag == DT_SONAME) soname = entry;
  }
  if (soname != nullptr && out.names != nullptr) out.soname = out.names + soname->d_un.d_val;
  return out;
}

bool equal(const char* left, const char* right) {
  for (; *left != '\0' && *left == *right; ++left) ++right;
  return *left == *right;
}

/// Returns the address of an exported name, or 0. Reads the tables as the linker does (gABI, DT_GNU_HASH).
std::uintptr_t find(const Wrapped& library, const char* name) {
  const std::uint32_t* table = library.exports.hash;
  if (table == nullptr) return 0;
  std::uint32_t hash = 5381;
  for (const char* letter = name; *letter != '\0'; ++letter) hash = hash * 33 + static_cast<unsigned char>(*letter);
  const std::uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
  const std::uint32_t* bucket = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof *table);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t index = bucket[hash % buckets];
  if (index < first) return 0;
  for (;; ++index) {
    const std::uint32_t entry = chain[index - first];
    const ElfW(Sym)& symbol = library.exports.symbols[index];
    if ((entry | 1) == (hash | 1) && equal(library.exports.names + symbol.st_name, name))
      return library.shim->l_addr + symbol.st_value;
    if ((entry & 1) != 0) return 0;
  }
}

/// Finds the file of this code in /proc/self/maps and writes its folder with a slash to `path`. Returns false if it
/// cannot be found.
bool own_folder(char (&path)[kLongestPath]) {
  const File maps("/proc/self/maps");
  const auto own = reinterpret_cast<std::uintptr_t>(&own_folder);
  char piece[512];
  std::uintptr_t bounds[2] = {0, 0};
  unsigned bound = 0, length = 0, slash = 0;
  for (long got = 0; maps.is_open() && (got = maps.read(piece, sizeof piece)) > 0;) {
    for (long i = 0; i < got; ++i) {
      const char letter = piece[i];
      if (letter == '\n') {
        if (slash != 0 && slash < kLongestPath && own >= bounds[0] && own < bounds[1]) {
          path[slash] = '\0';
          return true;
        }
        bounds[0] = bounds[1] = 0;
        bound = length = slash = 0;
      } else if (length != 0 || letter == '/') {
        if (length < kLongestPath) path[length] = letter;
        ++length;
        if (letter == '/') slash = length;
      } else if (letter == '-' || letter == ' ') {
        ++bound;
      } else if (bound < 2) {
        bounds[bound] = bounds[bound] * 16 + static_cast<unsigned>(letter <= '9' ? letter - '0' : letter - 'a' + 10);
      }
    }
  }
  return false;
}

/// Finds the guards in the folder of this library.
void find_shims() {
  char folder[kLongestPath];
  if (!own_folder(folder)) return;
  for (Wrapped& library : wrapped) {
    unsigned length = 0;
    for (const char* from = folder; *from != '\0' && length < kLongestPath - 1; ++from) library.path[length++] = *from;
    for (const char* from = library.file; *from != '\0' && length < kLongestPath - 1; ++from)
      library.path[length++] = *from;
    library.path[length] = '\0';
    library.inode = inode_of(library.path);
  }
}

/// Returns the guard that stands in for the library that `name` asks for, or null. Judges a path by the SONAME in its
/// file, whatever the file is called.
const Wrapped* wrapped_by(const char* name) {
  bool is_path = false;
  for (const char* letter = name; *letter != '\0'; ++letter) is_path = is_path || *letter == '/';
  const char* asked = name;
  if (is_path) {
    const File file(name);
    asked = file.is_open() ? ration::guard::wrapped_by_soname(file) : nullptr;
    if (asked == nullptr) return nullptr;
  }
  for (const Wrapped& library : wrapped) {
    if (is_version_of(asked, library.soname)) return &library;
  }
  return nullptr;
}

}  // namespace

RATION_AUDIT unsigned int la_version(unsigned int offered) {
  find_shims();
  return offered < LAV_CURRENT ? offered : LAV_CURRENT;
}

// Classifies an object that the linker opens, and records the first guard of each kind. A guard is recognised by its
// file, because another library with the same name may come first; if that file cannot be found (no /proc), the first
// library of the name counts as the guard.
RATION_AUDIT unsigned int la_objopen(link_map* object, Lmid_t, std::uintptr_t* cookie) {
  *cookie = kProgram;
  const Exports exports = exports_of(object);
  for (std::uintptr_t i = 0; i < sizeof wrapped / sizeof *wrapped; ++i) {
    Wrapped& library = wrapped[i];
    if (!is_version_of(exports.soname, library.soname)) continue;
    const bool is_shim = library.inode.number == 0 || same(inode_of(object->l_name), library.inode);
    *cookie = (is_shim && library.shim == nullptr ? kFirstShim : kFirstReal) + i;
    if (*cookie >= kFirstReal) return LA_FLG_BINDTO;
    library.shim = object;
    library.exports = exports;
    return 0;
  }
  return LA_FLG_BINDFROM;
}

// Returns the guard's path if the program, or one of its libraries, requests the driver or NVML by name or by a path to
// the file. Does so even in a new namespace, and even if the guard was not preloaded.
RATION_AUDIT char* la_objsearch(const char* name, std::uintptr_t* cookie, unsigned int) {
  const Wrapped* library = *cookie == kProgram ? wrapped_by(name) : nullptr;
  if (library == nullptr) return const_cast<char*>(name);
  if (library->inode.number != 0) return const_cast<char*>(library->path);
  return library->shim != nullptr ? library->shim->l_name : const_cast<char*>(name);
}

// Returns the guard's function for a name in the real library, unless the driver's own libraries or the guards ask for
// it.
RATION_AUDIT std::uintptr_t la_symbind64(ElfW(Sym) * symbol, unsigned int, std::uintptr_t* from, std::uintptr_t* to,
                                         unsigned int* flags, const char* name) {
  *flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
  if (*from != kProgram || *to < kFirstReal || wrapped[*to - kFirstReal].shim == nullptr) return symbol->st_value;
  const std::uintptr_t own = find(wrapped[*to - kFirstReal], name);
  return own != 0 ? own : symbol->st_value;
}
