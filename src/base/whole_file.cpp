#include "base/whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/file.hpp"

namespace ration {

namespace {

/// False: errno says why. What is written in part is gone on with, until it cannot be.
bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t done = ::write(file, content.data(), content.size());
    if (done < 0 && errno != EINTR) return false;
    if (done > 0) content.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
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

}  // namespace ration
