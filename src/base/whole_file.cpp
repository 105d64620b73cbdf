#include "base/whole_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/file.hpp"
#include "base/say.hpp"

namespace ration {

namespace {

/// Writes the whole content, continuing after partial writes. Returns false with errno on failure.
bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t done = ::write(file, content.data(), content.size());
    if (done < 0 && errno != EINTR) return false;
    if (done > 0) content.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

tl::unexpected<Message> no(Message why) { return tl::unexpected(std::move(why)); }

/// Returns a sentence for a path that is no regular file.
FixedMessage kind_of(mode_t mode) {
  constexpr struct {
    mode_t type;
    FixedMessage name;
  } kKinds[] = {{S_IFIFO, fixed<"file.is_pipe">()},   {S_IFSOCK, fixed<"file.is_socket">()},
                {S_IFCHR, fixed<"file.is_device">()}, {S_IFBLK, fixed<"file.is_device">()},
                {S_IFDIR, fixed<"file.is_folder">()}, {S_IFLNK, fixed<"file.is_link">()}};
  const auto* const kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [&](const auto& each) { return each.type == (mode & S_IFMT); });
  return kind == std::end(kKinds) ? fixed<"file.is_none">() : kind->name;
}

tl::unexpected<Message> too_large(std::size_t most) {
  return no(say<"file.is_too_large">("most_bytes"_is(Bytes{most})));
}

}  // namespace

bool write_whole(const std::string& path, const std::string& content, mode_t mode) {
  const std::string fresh = path + ".new";
  const FileDescriptor out{
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode)};
  if (!out) return false;
  const bool done =
      write_all(out.get(), content) && ::fchmod(out.get(), mode) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0;
  if (done) return true;
  const int why = errno;
  ::unlink(fresh.c_str());
  errno = why;
  return false;
}

tl::expected<FileDescriptor, Message> open_regular(const std::string& path, Links links) {
  // Opened only as a path first, since opening a pipe waits for its other end, and opening a device may have side
  // effects.
  const FileDescriptor place{::open(path.c_str(), O_PATH | O_CLOEXEC | (links == Links::kRejected ? O_NOFOLLOW : 0))};
  struct stat status {};
  if (!place || ::fstat(place.get(), &status) != 0) return no(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return no(kind_of(status.st_mode));
  FileDescriptor file{::open(path_of(place).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return no(std::strerror(errno));
  return file;
}

std::string path_of(const FileDescriptor& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

tl::expected<std::string, Message> read_whole(int file, std::size_t most) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return no(std::strerror(errno));
  // Files in /proc report the size 0.
  if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) > most) return too_large(most);
  std::string content;
  content.reserve(static_cast<std::size_t>(S_ISREG(status.st_mode) ? status.st_size : 0));
  std::array<char, 16384> piece;
  for (;;) {
    const ssize_t got = ::read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return no(std::strerror(errno));
    if (got == 0) return content;
    content.append(piece.data(), static_cast<std::size_t>(got));
    if (content.size() > most) return too_large(most);
  }
}

tl::expected<std::string, Message> read_whole(const std::string& path, std::size_t most, Links links) {
  const auto file = open_regular(path, links);
  return file ? read_whole(file->get(), most) : no(file.error());
}

}  // namespace ration
