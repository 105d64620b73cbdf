// What an image of device code takes on a device: ELF (cubins), and fat binaries, which hold several of them.
// Used by the shim, which charges it before the driver loads the image, and by the simulated driver, which takes it.
// Promises: reads through its caller only, so that no form of an image makes it touch memory that is not there; no
// allocation; libc only. A size is never told too low: it is at least the sum of the sections that are loaded.
//
// ELF: the sections that are loaded, one after the other at their alignments: code, constants, `__device__` variables.
// Those of shared and local memory have no place on the device. Fat binaries are in no documentation of NVIDIA's; that
// header, entries and wrapper lie as below is known from public readers (ZLUDA, cuda-fatbin-decompression). Text (PTX)
// and intermediate code tell no size: the driver compiles them.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace ration::driver {

/// Images of one context lie side by side in its granules, each from a multiple of this on (as blocks of cuMemAlloc).
inline constexpr Bytes kImageStep{512};

/// What an image says of its size. kText: nothing. kBroken: nothing that can be relied on.
enum class Telling { kSize, kText, kBroken };

struct CodeImage {
  Telling telling = Telling::kText;
  Bytes size;               ///< on the device, whole steps; at most kUnlimited
  std::uint64_t start = 0;  ///< where its ELF begins, as the reader counts
  bool readable = false;    ///< whether that ELF is there as it is; one that is compressed is not
};

/// Compute capability of a device: 10 * major + minor, as fat binaries write it.
using Capability = unsigned;

namespace image {

/// Of an ELF that stands alone in memory no end is known.
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
inline constexpr std::uint32_t kShortestEntry = 32;  // up to its capability

inline bool within(std::uint64_t at, std::uint64_t size, std::uint64_t end) noexcept {
  return at <= end && size <= end - at;
}

/// Shared and local memory are of the multiprocessors and of each thread: `.nv.shared.KERNEL`, `.nv.local.KERNEL`.
inline bool is_of_multiprocessors(const char* name) noexcept {
  return std::strncmp(name, ".nv.shared", 10) == 0 || std::strncmp(name, ".nv.local", 9) == 0;
}

}  // namespace image

/// Visits each section of the ELF at `start`, which ends before `end`: `visit(section, offset)`, where `offset` is its
/// place on the device, kNoEnd of one that is not loaded. `read(at, out, size)` is false where that is not there.
/// kBroken: the sections cannot be read, or there are none. What they say together is in `size`.
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
  // More sections than the header has room for: the first one says how many, and which has the names (ELF, gABI).
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
      for (std::size_t i = 0; i + 1 < sizeof name; ++i) {  // one of the last names
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

/// Which entry a driver picks is its own affair, so it counts as the largest that it may pick: code is good on devices
/// of its own major capability from its minor one on ("binary compatibility", CUDA C++ programming guide). Where none
/// is, text may be compiled; where there is none, either, the largest of all.
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
      continue;  // the driver picks it nowhere here
    }
    CodeImage& largest = fits ? best : other;
    bool& any = fits ? has_code : has_other;
    if (!any || code.size > largest.size) largest = code;
    any = true;
  }
  return has_code || has_text ? best : has_other ? other : broken;
}

}  // namespace image

/// What the image at `start` takes on a device of that capability. `end`: of what is known to be there. `pointers`:
/// whether the reader counts in addresses, so that what an image points to can be followed.
template <typename Read>
CodeImage code_image(Read&& read, std::uint64_t start, std::uint64_t end, bool pointers, Capability device) noexcept {
  using namespace image;
  std::uint32_t magic = 0;
  if (!within(start, sizeof magic, end) || !read(start, &magic, sizeof magic)) return {};  // the driver's to refuse
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
