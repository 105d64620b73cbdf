// Computes how much device memory an image of device code takes: ELF (cubins), and fat binaries, which contain several
// of them. Used by the guard, which charges it before the driver loads the image, and by the simulated driver, which
// takes it. Promises: reads through its caller only, so that no form of an image makes it touch memory that is not
// there; no allocation; libc only. A reported size is never too low: it is at least the sum of the loaded sections.
//
// ELF: the loaded sections, one after the other at their alignments: code, constants, `__device__` variables. Sections
// of shared and local memory take nothing on the device. NVIDIA does not document fat binaries; public readers (ZLUDA,
// cuda-fatbin-decompression) show that header, entries and wrapper lie as below. Text (PTX) and intermediate code have
// no known size: the driver compiles them.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace ration::driver {

/// The step in which images of one context lie side by side in its granules (as blocks of cuMemAlloc).
inline constexpr Bytes kImageStep{512};

/// How well an image tells its size. kText: not at all. kBroken: nothing in it is reliable.
enum class Telling { kSize, kText, kBroken };

struct CodeImage {
  Telling telling = Telling::kText;
  Bytes size;               ///< on the device, in whole steps; at most kUnlimited
  std::uint64_t start = 0;  ///< start of its ELF in the reader's offsets
  bool readable = false;    ///< false if that ELF is compressed or not there
};

/// The compute capability of a device as fat binaries write it: 10 * major + minor.
using Capability = unsigned;

namespace image {

/// The end of an ELF that stands alone in memory is unknown.
inline constexpr std::uint64_t kNoEnd = ~std::uint64_t{0};

struct FatBinaryWrapper {
  std::uint32_t magic, version;
  std::uint64_t data;  // an address
  std::uint64_t more;
};
struct FatBinaryHeader {
  std::uint32_t magic;
  std::uint16_t version, header_size;
  std::uint64_t size;  // of all entries
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
inline constexpr std::uint32_t kShortestEntry = 32;  // the part up to the capability

inline bool within(std::uint64_t at, std::uint64_t size, std::uint64_t end) noexcept {
  return at <= end && size <= end - at;
}

/// Returns true for shared and local memory, which belongs to the multiprocessors and threads: `.nv.shared.KERNEL`,
/// `.nv.local.KERNEL`.
inline bool is_of_multiprocessors(const char* name) noexcept {
  return std::strncmp(name, ".nv.shared", 10) == 0 || std::strncmp(name, ".nv.local", 9) == 0;
}

}  // namespace image

/// Visits each section of the ELF at `start`, which ends before `end`: `visit(section, offset)`, where `offset` is its
/// place on the device, or kNoEnd if it is not loaded. `read(at, out, size)` returns false if nothing is there.
/// kBroken: the sections cannot be read, or there are none. `size` is the total.
template <typename Read, typename Visit>
Telling visit_sections(Read&& read, std::uint64_t start, std::uint64_t end, Bytes& size, Visit&& visit) noexcept {
  using namespace image;
  Elf64_Ehdr header;
  Elf64_Shdr section, names{};
  const auto read_part = [&](std::uint64_t offset, void* out, std::uint64_t bytes) {
    return within(offset, bytes, kNoEnd - start) && within(start + offset, bytes, end) &&
           read(start + offset, out, static_cast<std::size_t>(bytes));
  };
  if (!read_part(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_shentsize != sizeof section || header.e_shoff < sizeof header)
    return Telling::kBroken;
  const auto section_at = [&](std::uint64_t index, Elf64_Shdr& out) {
    std::uint64_t offset = 0;
    return !__builtin_mul_overflow(index, sizeof out, &offset) &&
           !__builtin_add_overflow(offset, header.e_shoff, &offset) && read_part(offset, &out, sizeof out);
  };
  if (!section_at(0, section)) return Telling::kBroken;
  // If there are more sections than the header's field can count, the first section has their number and the index of
  // the one with the names (ELF, gABI).
  const std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : section.sh_size;
  const std::uint64_t named_by = header.e_shstrndx == SHN_XINDEX ? section.sh_link : header.e_shstrndx;
  if (count == 0 || named_by >= count) return Telling::kBroken;
  if (named_by != SHN_UNDEF && !section_at(named_by, names)) return Telling::kBroken;
  std::uint64_t total = 0;
  for (std::uint64_t index = 0; index < count; ++index) {
    if (!section_at(index, section)) return Telling::kBroken;
    std::uint64_t offset = kNoEnd;
    char name[12] = {};
    std::uint64_t name_at = 0;
    const bool is_named = named_by != SHN_UNDEF && (section.sh_flags & SHF_ALLOC) != 0 &&
                          section.sh_name < names.sh_size &&
                          !__builtin_add_overflow(names.sh_offset, section.sh_name, &name_at);
    if (is_named && !read_part(name_at, name, sizeof name - 1)) {
      for (std::size_t i = 0; i + 1 < sizeof name; ++i) {  // too short a rest for another name
        if (!read_part(name_at + i, &name[i], 1) || name[i] == '\0') break;
      }
    }
    if ((section.sh_flags & SHF_ALLOC) != 0 && !is_of_multiprocessors(name)) {
      const std::uint64_t step = std::max<std::uint64_t>(section.sh_addralign, 1);
      if ((step & (step - 1)) != 0) return Telling::kBroken;
      if (section.sh_type != SHT_NOBITS && end != kNoEnd &&
          !(within(section.sh_offset, section.sh_size, kNoEnd - start) &&
            within(start + section.sh_offset, section.sh_size, end)))
        return Telling::kBroken;
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

/// A driver chooses the entry in its own way, so the image counts as the largest entry that it may choose: code runs on
/// devices of its own major capability from its minor one on ("binary compatibility", CUDA C++ programming guide). If
/// none matches, text may be compiled; if there is no text either, the largest of all counts.
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
    if (!within(at, kShortestEntry, last) || !read(at, &entry, kShortestEntry)) return broken;
    const std::uint64_t header_size = entry.header_size;
    if (header_size < kShortestEntry || !within(at, header_size, last)) return broken;
    const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(header_size, sizeof entry));
    if (!read(at, &entry, known)) return broken;
    const std::uint64_t payload = at + header_size;
    if (!within(payload, entry.size, last)) return broken;
    at = payload + entry.size;
    if (entry.kind != kElfEntry) {
      has_text = true;
      continue;
    }
    char magic[SELFMAG] = {};
    const bool plain = entry.size >= sizeof magic && read(payload, magic, sizeof magic) &&
                       std::memcmp(magic, ELFMAG, sizeof magic) == 0;
    CodeImage code{entry.uncompressed_size > 0 ? Telling::kSize : Telling::kBroken,
                   std::min(round_up(Bytes{entry.uncompressed_size}, kImageStep), kUnlimited), payload, false};
    if (plain) code = of_elf(read, payload, at);
    const bool fits = entry.capability / 10 == device / 10 && entry.capability % 10 <= device % 10;
    if (code.telling == Telling::kBroken) {
      if (fits) return broken;
      continue;  // no driver picks it for this device
    }
    CodeImage& largest = fits ? best : other;
    bool& any = fits ? has_code : has_other;
    if (!any || code.size > largest.size) largest = code;
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
