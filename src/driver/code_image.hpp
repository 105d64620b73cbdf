// Computes how much device memory an image of device code takes: an ELF file (cubin), or a fat binary, which contains
// several images. Used by the guard, which charges that size before the driver loads the image, and by the simulated
// driver, which takes that size. Promises: an image is read only through the caller's `read`, so that even a malformed
// image leads to no access outside existing memory; no allocation; libc only. A reported size is never too low: it is
// at least the sum of the loaded sections.
//
// The loaded sections of an ELF file lie one after the other at their alignments: code, constants, `__device__`
// variables. Sections of shared and local memory take no device memory. NVIDIA does not document fat binaries; public
// readers (ZLUDA, cuda-fatbin-decompression) show the header, entries and wrapper declared below. Text (PTX) and
// intermediate code have no known size, because the driver compiles them.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace ration::driver {

/// The alignment of images, which lie side by side in the granules of a context as blocks of cuMemAlloc do.
inline constexpr Bytes kImageStep{512};

/// The reliability of an image's size. The size of an image of text (kText) is unknown; nothing in a broken image
/// (kBroken) is reliable.
enum class Telling { kSize, kText, kBroken };

/// The compute capability of a device as fat binaries write it: 10 * major + minor.
using Capability = unsigned;

struct CodeImage {
  Telling telling = Telling::kText;
  Bytes size;                 ///< the size on the device in whole steps; at most kUnlimited
  std::uint64_t start = 0;    ///< the start of its ELF file in the reader's offsets
  bool readable = false;      ///< false if its ELF file is compressed or missing
  Capability capability = 0;  ///< the highest capability of its code that the device can run; 0 if unknown
};

namespace image {

/// The value for the end of an ELF file that stands alone in memory: its end is unknown.
inline constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

struct FatBinaryWrapper {
  std::uint32_t magic, version;
  std::uint64_t data;  // an address
  std::uint64_t more;
};
struct FatBinaryHeader {
  std::uint32_t magic;
  std::uint16_t version, header_size;
  std::uint64_t size;  // total of all entries
};
struct FatBinaryEntry {
  std::uint16_t kind, version;
  std::uint32_t header_size;
  std::uint64_t size;
  std::uint32_t compressed_size, name_size;
  std::uint16_t minor, major;
  std::uint32_t capability;
  std::uint64_t name, flags, reserved;
  std::uint64_t uncompressed_size;
};
static_assert(sizeof(FatBinaryWrapper) == 24 && sizeof(FatBinaryHeader) == 16 && sizeof(FatBinaryEntry) == 64);
inline constexpr std::uint32_t kWrapperMagic = 0x466243b1, kFatBinaryMagic = 0xba55ed50;
inline constexpr std::uint16_t kElfEntry = 2;
inline constexpr std::uint32_t kShortestEntry = 32;  // the part of an entry up to the capability

inline bool within(std::uint64_t at, std::uint64_t size, std::uint64_t end) noexcept {
  return at <= end && size <= end - at;
}

/// Returns true for a section of shared memory (`.nv.shared.KERNEL`), which multiprocessors hold, or of local memory
/// (`.nv.local.KERNEL`), which threads hold.
inline bool is_of_multiprocessors(const char* name) noexcept {
  return std::strncmp(name, ".nv.shared", 10) == 0 || std::strncmp(name, ".nv.local", 9) == 0;
}

}  // namespace image

namespace image {

/// The section headers of the ELF file at `start`, which ends before `end`. `read(at, out, size)` returns false if
/// nothing is there.
template <typename Read>
class Sections {
 public:
  Sections(Read& read, std::uint64_t start, std::uint64_t end) noexcept : read_(read), start_(start), end_(end) {}

  /// Reads the header. Returns false if the file is no ELF file of device code, or if its section headers cannot be
  /// read.
  bool open() noexcept {
    Elf64_Shdr first;
    if (!read_part(0, &header_, sizeof header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_shentsize != sizeof first || header_.e_shoff < sizeof header_ || !at(0, first))
      return false;
    // If the header's field cannot count the sections, the first section holds their number and the index of the
    // section with the names (ELF, gABI).
    count_ = header_.e_shnum != 0 ? header_.e_shnum : first.sh_size;
    const std::uint64_t named_by = header_.e_shstrndx == SHN_XINDEX ? first.sh_link : header_.e_shstrndx;
    if (count_ == 0 || named_by >= count_) return false;
    has_names_ = named_by != SHN_UNDEF;
    return !has_names_ || at(named_by, names_);
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  bool at(std::uint64_t index, Elf64_Shdr& out) const noexcept {
    std::uint64_t offset = 0;
    return !__builtin_mul_overflow(index, sizeof out, &offset) &&
           !__builtin_add_overflow(offset, header_.e_shoff, &offset) && read_part(offset, &out, sizeof out);
  }

  /// Writes the first letters of a section's name, ended by a zero; empty if no name can be read.
  void name_of(const Elf64_Shdr& section, char (&name)[12]) const noexcept {
    std::memset(name, 0, sizeof name);
    std::uint64_t at = 0;
    if (!has_names_ || section.sh_name >= names_.sh_size ||
        __builtin_add_overflow(names_.sh_offset, section.sh_name, &at) || read_part(at, name, sizeof name - 1))
      return;
    for (std::size_t i = 0; i + 1 < sizeof name; ++i)  // letter by letter, because the file may end sooner
      if (!read_part(at + i, &name[i], 1) || name[i] == '\0') break;
  }

  /// Returns true if the section's bytes lie within the file. Also returns true if the section has no bytes in the
  /// file, or if the file's end is unknown.
  [[nodiscard]] bool has_bytes_of(const Elf64_Shdr& section) const noexcept {
    return section.sh_type == SHT_NOBITS || end_ == kNoEnd || lies_within(section.sh_offset, section.sh_size);
  }

 private:
  [[nodiscard]] bool lies_within(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return within(offset, bytes, kNoEnd - start_) && within(start_ + offset, bytes, end_);
  }
  bool read_part(std::uint64_t offset, void* out, std::uint64_t bytes) const noexcept {
    return lies_within(offset, bytes) && read_(start_ + offset, out, static_cast<std::size_t>(bytes));
  }

  Read& read_;
  std::uint64_t start_, end_;
  Elf64_Ehdr header_{};
  Elf64_Shdr names_{};
  std::uint64_t count_ = 0;
  bool has_names_ = false;
};

}  // namespace image

/// Calls `visit(section, offset)` for each section of the ELF file at `start`, which ends before `end`. `offset` is the
/// section's place on the device, or kNoEnd if it is not loaded. `read(at, out, size)` returns false if there are no
/// such bytes. Sets `size` to the total size of the loaded sections. Returns kBroken if there are no sections, or if
/// they cannot be read.
template <typename Read, typename Visit>
Telling visit_sections(Read&& read, std::uint64_t start, std::uint64_t end, Bytes& size, Visit&& visit) noexcept {
  image::Sections sections(read, start, end);
  if (!sections.open()) return Telling::kBroken;
  std::uint64_t total = 0;
  for (std::uint64_t index = 0; index < sections.count(); ++index) {
    Elf64_Shdr section;
    if (!sections.at(index, section)) return Telling::kBroken;
    std::uint64_t offset = image::kNoEnd;
    char name[12] = {};
    const bool is_loaded = (section.sh_flags & SHF_ALLOC) != 0;
    if (is_loaded) sections.name_of(section, name);
    if (is_loaded && !image::is_of_multiprocessors(name)) {
      const std::uint64_t step = std::max<std::uint64_t>(section.sh_addralign, 1);
      if ((step & (step - 1)) != 0 || !sections.has_bytes_of(section)) return Telling::kBroken;
      const std::uint64_t padding = (step - total % step) % step;
      offset = std::min(kUnlimited.count(), total + std::min(padding, kUnlimited.count()));
      total = offset + std::min(section.sh_size, kUnlimited.count() - offset);
    }
    visit(section, offset);
  }
  size = std::min(round_up(Bytes{total}, kImageStep), kUnlimited);
  return Telling::kSize;
}

namespace image {

template <typename Read>
CodeImage of_elf(Read&& read, std::uint64_t start, std::uint64_t end) noexcept {
  CodeImage result{Telling::kBroken, Bytes{0}, start, true};
  result.telling = visit_sections(read, start, end, result.size, [](const Elf64_Shdr&, std::uint64_t) {});
  return result;
}

/// Reads the entry at `at`, whose content begins at `payload`. Returns false if it does not end before `last`.
template <typename Read>
bool read_entry(Read&& read, std::uint64_t at, std::uint64_t last, FatBinaryEntry& entry,
                std::uint64_t& payload) noexcept {
  if (!within(at, kShortestEntry, last) || !read(at, &entry, kShortestEntry)) return false;
  const std::uint64_t header_size = entry.header_size;
  if (header_size < kShortestEntry || !within(at, header_size, last)) return false;
  if (!read(at, &entry, static_cast<std::size_t>(std::min<std::uint64_t>(header_size, sizeof entry)))) return false;
  payload = at + header_size;
  return within(payload, entry.size, last);
}

/// Returns the code of an entry: by its sections, or by the size that the entry states if it is compressed.
template <typename Read>
CodeImage of_entry(Read&& read, const FatBinaryEntry& entry, std::uint64_t payload) noexcept {
  char magic[SELFMAG] = {};
  const bool plain =
      entry.size >= sizeof magic && read(payload, magic, sizeof magic) && std::memcmp(magic, ELFMAG, sizeof magic) == 0;
  if (plain) return of_elf(read, payload, payload + entry.size);
  return {entry.uncompressed_size > 0 ? Telling::kSize : Telling::kBroken,
          std::min(round_up(Bytes{entry.uncompressed_size}, kImageStep), kUnlimited), payload, false};
}

/// Computes the size of the largest entry that the driver may choose, because each driver chooses in its own way. Code
/// runs on devices of the same major capability and of the same or a higher minor one ("binary compatibility", CUDA C++
/// programming guide). If no code matches, the driver may compile text; without text, the largest of all entries
/// counts.
template <typename Read>
CodeImage of_fat_binary(Read&& read, std::uint64_t start, std::uint64_t end, Capability device) noexcept {
  CodeImage best{Telling::kText, Bytes{0}, start, false}, other = best;
  const CodeImage broken{Telling::kBroken, Bytes{0}, start, false};
  bool has_code = false, has_other = false, has_text = false;
  FatBinaryHeader header;
  if (!within(start, sizeof header, end) || !read(start, &header, sizeof header)) return broken;
  std::uint64_t at = 0, last = 0;
  if (header.header_size < sizeof header || __builtin_add_overflow(start, header.header_size, &at) ||
      __builtin_add_overflow(at, header.size, &last) || last > end)
    return broken;
  while (at < last) {
    FatBinaryEntry entry{};
    std::uint64_t payload = 0;
    if (!read_entry(read, at, last, entry, payload)) return broken;
    at = payload + entry.size;
    if (entry.kind != kElfEntry) {
      has_text = true;
      continue;
    }
    const CodeImage code = of_entry(read, entry, payload);
    const bool fits = entry.capability / 10 == device / 10 && entry.capability % 10 <= device % 10;
    if (code.telling == Telling::kBroken) {
      if (fits) return broken;
      continue;  // no driver chooses it for this device
    }
    CodeImage& largest = fits ? best : other;
    bool& any = fits ? has_code : has_other;
    const Capability highest = std::max(largest.capability, fits ? Capability{entry.capability} : Capability{0});
    if (!any || code.size > largest.size) largest = code;
    largest.capability = highest;
    any = true;
  }
  return has_code || has_text ? best : has_other ? other : broken;
}

}  // namespace image

/// Returns the size of the image at `start` on a device of that capability. `end` bounds the readable memory.
/// `pointers` is true if the reader's offsets are addresses, so that pointers in an image can be followed.
template <typename Read>
CodeImage code_image(Read&& read, std::uint64_t start, std::uint64_t end, bool pointers, Capability device) noexcept {
  using namespace image;
  std::uint32_t magic = 0;
  if (!within(start, sizeof magic, end) || !read(start, &magic, sizeof magic)) return {};  // the driver rejects it
  if (magic == kWrapperMagic && pointers) {
    FatBinaryWrapper wrapper;
    if (!read(start, &wrapper, sizeof wrapper) || !read(wrapper.data, &magic, sizeof magic))
      return {Telling::kBroken, Bytes{0}, start, false};
    start = wrapper.data;
    end = kNoEnd;
  }
  if (magic == kFatBinaryMagic) return of_fat_binary(read, start, end, device);
  if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) return of_elf(read, start, end);
  return {};
}

}  // namespace ration::driver
