// What the dynamic linker asks before it answers (rtld-audit(7)): whoever looks up a name in the real driver or NVML
// gets the shim's, by whatever dlopen() and in whatever namespace it was opened, and under whatever file name: a
// library is known by its SONAME. `ration run` names this library in LD_AUDIT, beside the shims in LD_PRELOAD.
//
// Freestanding: it lives in a namespace of its own in every process of a workload, which without libc costs it a page.
// The linker calls it under its own lock; it is asked for look-ups in the two libraries only.
#include <link.h>

#include <cstdint>

#define RATION_AUDIT extern "C" [[gnu::visibility("default")]]

namespace {

/// The functions that an object exports.
struct Exports {
  const char* names = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const std::uint32_t* hash = nullptr;  // DT_GNU_HASH
  const char* soname = "";
};

struct Wrapped {
  const char* soname;  // without a version
  const link_map* shim = nullptr;
  Exports exports;
};
Wrapped wrapped[] = {{"libcuda.so", nullptr, {}}, {"libnvidia-ml.so", nullptr, {}}};

/// The cookies of objects: what an object is decides what it is told.
enum Cookie : std::uintptr_t { kProgram = 0, kFirstShim = 1, kFirstReal = 3 };

// A read-only dynamic section (the vDSO's) holds offsets, any other one addresses.
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

/// "libcuda.so", "libcuda.so.1", "libcuda.so.580.65.06".
bool is_version_of(const char* file, const char* library) {
  for (; *library != '\0'; ++library) {
    if (*file++ != *library) return false;
  }
  if (*file != '\0' && *file != '.') return false;
  while (*file == '.' || (*file >= '0' && *file <= '9')) ++file;
  return *file == '\0';
}

/// The address of an exported name; 0: there is none. Tables as the linker reads them (gABI, DT_GNU_HASH).
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

}  // namespace

RATION_AUDIT unsigned int la_version(unsigned int offered) { return offered < LAV_CURRENT ? offered : LAV_CURRENT; }

// The shims are preloaded, so the first library of either name is the shim.
RATION_AUDIT unsigned int la_objopen(link_map* object, Lmid_t, std::uintptr_t* cookie) {
  *cookie = kProgram;
  const Exports exports = exports_of(object);
  for (std::uintptr_t i = 0; i < sizeof wrapped / sizeof *wrapped; ++i) {
    if (!is_version_of(exports.soname, wrapped[i].soname)) continue;
    *cookie = (wrapped[i].shim == nullptr ? kFirstShim : kFirstReal) + i;
    if (wrapped[i].shim != nullptr) return LA_FLG_BINDTO;
    wrapped[i].shim = object;
    wrapped[i].exports = exports;
  }
  return 0;
}

// What names the driver without a path is the shim, in a new namespace, too. A path is left as it is: it may lead
// nowhere, which the caller is to be told.
RATION_AUDIT char* la_objsearch(const char* name, std::uintptr_t* cookie, unsigned int) {
  if (*cookie != kProgram) return const_cast<char*>(name);
  for (const Wrapped& library : wrapped) {
    if (library.shim != nullptr && is_version_of(name, library.soname)) return library.shim->l_name;
  }
  return const_cast<char*>(name);
}

// The driver's own libraries and the shims mean what they ask for.
RATION_AUDIT std::uintptr_t la_symbind64(ElfW(Sym) * symbol, unsigned int, std::uintptr_t* from, std::uintptr_t* to,
                                         unsigned int* flags, const char* name) {
  *flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
  if (*from != kProgram || *to < kFirstReal) return symbol->st_value;
  const std::uintptr_t own = find(wrapped[*to - kFirstReal], name);
  return own != 0 ? own : symbol->st_value;
}
