// The sections of a recording's file. Each section has a tag, a compressed content, and a checksum. docs/recording.md
// describes the sections. Used to write and to read packed recordings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.hpp"

namespace ration::trace {

inline constexpr std::string_view kFileMagic = "rationR1", kFileEnd = "rationRE";

using Tag = std::array<char, 4>;
inline constexpr Tag kHeaderTag{'H', 'E', 'A', 'D'}, kLiveTag{'L', 'I', 'V', 'E'}, kSummaryTag{'S', 'U', 'M', 'M'},
    kEventsTag{'E', 'V', 'N', 'T'}, kOverviewTag{'O', 'V', 'E', 'R'}, kIndexTag{'I', 'N', 'D', 'X'};

/// The last bytes of a complete file.
struct Trailer {
  std::uint64_t index;  ///< offset of the section kIndexTag
  std::array<char, 8> magic;
};

/// The head of a section, little-endian as on every machine that has a driver.
struct SectionHead {
  Tag tag;
  std::uint32_t stored;  ///< bytes behind the head
  std::uint32_t plain;   ///< bytes of the content before it was compressed
  std::uint32_t crc;     ///< CRC-32 of the stored bytes
};
static_assert(sizeof(SectionHead) == 16);

struct Section {
  Tag tag;
  std::string content;
  std::uint64_t end;  ///< offset at which the section ends
};

/// Returns the bytes of a section in the file.
[[nodiscard]] std::string section_of(const Tag& tag, std::string_view content);

/// A file that is read in sections. Another program may truncate the file meanwhile.
class SectionFile {
 public:
  explicit SectionFile(FileDescriptor file) : file_(std::move(file)) {}

  /// Returns the section at `offset`, or nothing if it is not whole.
  [[nodiscard]] std::optional<Section> section(std::uint64_t offset) const;
  /// Returns the section at `offset` without its content, or nothing if the section is not whole.
  [[nodiscard]] std::optional<Section> checked(std::uint64_t offset) const;
  /// Returns the trailer, or nothing if the file was cut off.
  [[nodiscard]] std::optional<Trailer> trailer() const;

 private:
  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] bool read(std::uint64_t offset, void* out, std::size_t size) const;
  /// Returns the stored bytes of the section at `offset`, or nothing if they are not whole.
  [[nodiscard]] std::optional<std::string> stored(std::uint64_t offset, SectionHead& head) const;
  FileDescriptor file_;
};

}  // namespace ration::trace
