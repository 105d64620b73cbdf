#include "trace/sections.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

namespace ration::trace {
namespace {

constexpr std::size_t kMostOfSection = std::size_t{256} << 20;
constexpr int kCompression = 1;  // Z_BEST_SPEED

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

}  // namespace

std::string section_of(const Tag& tag, std::string_view content) {
  uLongf size = ::compressBound(static_cast<uLong>(content.size()));
  std::string section(sizeof(SectionHead) + size, '\0');
  ::compress2(reinterpret_cast<Bytef*>(section.data() + sizeof(SectionHead)), &size,
              reinterpret_cast<const Bytef*>(content.data()), static_cast<uLong>(content.size()), kCompression);
  section.resize(sizeof(SectionHead) + size);
  const SectionHead head{tag, static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(content.size()),
                         crc_of(std::string_view(section).substr(sizeof(SectionHead)))};
  section.replace(0, sizeof head, reinterpret_cast<const char*>(&head), sizeof head);
  return section;
}

std::uint64_t SectionFile::size() const {
  struct stat status {};
  return ::fstat(file_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool SectionFile::read(std::uint64_t offset, void* out, std::size_t size) const {
  for (std::size_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(file_.get(), static_cast<char*>(out) + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<std::string> SectionFile::stored(std::uint64_t offset, SectionHead& head) const {
  const std::uint64_t all = size();
  if (offset > all || all - offset < sizeof head || !read(offset, &head, sizeof head)) return std::nullopt;
  if (head.stored > kMostOfSection || head.plain > kMostOfSection || head.stored > all - offset - sizeof head)
    return std::nullopt;
  std::string bytes(head.stored, '\0');
  if (!read(offset + sizeof head, bytes.data(), bytes.size()) || crc_of(bytes) != head.crc) return std::nullopt;
  return bytes;
}

std::optional<Section> SectionFile::checked(std::uint64_t offset) const {
  SectionHead head;
  if (!stored(offset, head)) return std::nullopt;
  return Section{head.tag, {}, offset + sizeof head + head.stored};
}

std::optional<Section> SectionFile::section(std::uint64_t offset) const {
  SectionHead head;
  const auto bytes = stored(offset, head);
  // Deflate expands a byte to at most 1,032 bytes.
  if (!bytes || head.plain / 1040 > head.stored) return std::nullopt;
  Section section{head.tag, std::string(head.plain, '\0'), offset + sizeof head + head.stored};
  uLongf plain = head.plain;
  if (::uncompress(reinterpret_cast<Bytef*>(section.content.data()), &plain,
                   reinterpret_cast<const Bytef*>(bytes->data()), static_cast<uLong>(bytes->size())) != Z_OK ||
      plain != head.plain)
    return std::nullopt;
  return section;
}

std::optional<Trailer> SectionFile::trailer() const {
  Trailer trailer;
  const std::uint64_t all = size();
  if (all < sizeof trailer || !read(all - sizeof trailer, &trailer, sizeof trailer)) return std::nullopt;
  if (!std::equal(kFileEnd.begin(), kFileEnd.end(), trailer.magic.begin())) return std::nullopt;
  return trailer;
}

}  // namespace ration::trace
