// A reader for the identity of an ELF file, which reads its first pages and does not load it. Used by the routes of the
// guard and by the audit library, which has no libc: nothing here calls libc. `Read` is a function `long(void* to,
// unsigned long length, unsigned long offset)` that returns the number of bytes read.
#pragma once

#include <link.h>

#include <cstdint>

namespace ration::guard {

inline constexpr const char* kDriverFile = "libcuda.so";
inline constexpr const char* kNvmlFile = "libnvidia-ml.so";

/// Returns true for `library` and its versions: "libcuda.so", "libcuda.so.1", "libcuda.so.580.65.06".
inline bool is_version_of(const char* file, const char* library) noexcept {
  for (; *library != '\0'; ++library) {
    if (*file++ != *library) return false;
  }
  if (*file != '\0' && *file != '.') return false;
  while (*file == '.' || (*file >= '0' && *file <= '9')) ++file;
  return *file == '\0';
}

class ElfPeek {
 public:
  static constexpr unsigned kNameLength = 64;

  template <typename Read>
  explicit ElfPeek(const Read& read) noexcept {
    if (read(&header_, sizeof header_, 0) != sizeof header_) return;
    is_elf_ = header_.e_ident[0] == 0x7f && header_.e_ident[1] == 'E' && header_.e_ident[2] == 'L' &&
              header_.e_ident[3] == 'F';
    if (!is_ours() || header_.e_phentsize != sizeof(ElfW(Phdr))) return;
    const unsigned count = header_.e_phnum < kMostParts ? header_.e_phnum : kMostParts;
    const long length = static_cast<long>(count * sizeof(ElfW(Phdr)));
    if (read(parts_, static_cast<unsigned long>(length), header_.e_phoff) == length) count_ = count;
  }

  [[nodiscard]] bool is_elf() const noexcept { return is_elf_; }

  /// Returns true if the file is built for this code's processor and word width.
  [[nodiscard]] bool is_ours() const noexcept {
#if defined(__x86_64__)
    constexpr unsigned kMachine = EM_X86_64;
#else
    constexpr unsigned kMachine = EM_AARCH64;
#endif
    return is_elf_ && header_.e_ident[EI_CLASS] == ELFCLASS64 && header_.e_machine == kMachine;
  }

  /// Reads the path of the loader with which the kernel starts the file. Returns false if the file names none.
  template <typename Read>
  bool interpreter(const Read& read, char (&name)[kNameLength]) const noexcept {
    const ElfW(Phdr)* part = find(PT_INTERP);
    return part != nullptr && text(read, part->p_offset, name);
  }

  /// Reads the file's SONAME. Returns false if it has none.
  template <typename Read>
  bool soname(const Read& read, char (&name)[kNameLength]) const noexcept {
    const ElfW(Phdr)* dynamic = find(PT_DYNAMIC);
    if (dynamic == nullptr) return false;
    constexpr unsigned long kChunk = 16;
    ElfW(Dyn) entries[kChunk];
    ElfW(Addr) strings = 0, at = 0;
    bool is_named = false, ends = false;
    for (unsigned long offset = 0; !ends && offset < dynamic->p_filesz; offset += sizeof entries) {
      const long got = read(entries, sizeof entries, dynamic->p_offset + offset);
      for (long i = 0; !ends && i < got / static_cast<long>(sizeof *entries); ++i) {
        if (entries[i].d_tag == DT_STRTAB) strings = entries[i].d_un.d_ptr;
        if (entries[i].d_tag == DT_SONAME) is_named = true, at = entries[i].d_un.d_val;
        ends = entries[i].d_tag == DT_NULL;
      }
      ends = ends || got != sizeof entries;
    }
    if (!is_named) return false;
    for (unsigned i = 0; i < count_; ++i) {
      const ElfW(Phdr)& part = parts_[i];
      if (part.p_type == PT_LOAD && strings >= part.p_vaddr && strings - part.p_vaddr < part.p_filesz)
        return text(read, part.p_offset + (strings - part.p_vaddr) + at, name);
    }
    return false;
  }

 private:
  static constexpr unsigned kMostParts = 32;

  [[nodiscard]] const ElfW(Phdr) * find(std::uint32_t type) const noexcept {
    for (unsigned i = 0; i < count_; ++i) {
      if (parts_[i].p_type == type) return &parts_[i];
    }
    return nullptr;
  }

  template <typename Read>
  static bool text(const Read& read, unsigned long offset, char (&name)[kNameLength]) noexcept {
    const long got = read(name, kNameLength - 1, offset);
    if (got <= 0) return false;
    name[got] = '\0';
    return true;
  }

  ElfW(Ehdr) header_;
  ElfW(Phdr) parts_[kMostParts];
  unsigned count_ = 0;
  bool is_elf_ = false;
};

/// Returns the name of the driver's or NVML's file if the SONAME is a version of that name, or null otherwise.
template <typename Read>
const char* wrapped_by_soname(const Read& read) noexcept {
  const ElfPeek file(read);
  char name[ElfPeek::kNameLength];
  if (!file.soname(read, name)) return nullptr;
  if (is_version_of(name, kDriverFile)) return kDriverFile;
  if (is_version_of(name, kNvmlFile)) return kNvmlFile;
  return nullptr;
}

}  // namespace ration::guard
