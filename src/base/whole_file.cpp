#include "base/whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file.hpp"

namespace ration {

bool write_whole(const std::string& path, const std::string& content, mode_t mode) {
  const std::string fresh = path + ".new";
  const FileDescriptor out{
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode)};
  if (!out) return false;
  const bool done = ::write(out.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
                    ::fchmod(out.get(), mode) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0;
  if (done) return true;
  const int why = errno;
  ::unlink(fresh.c_str());
  errno = why;
  return false;
}

}  // namespace ration
