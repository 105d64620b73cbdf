#include "node/state/whole_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file.hpp"

namespace ration::node {

Result<void> write_whole_file(const std::string& path, const std::string& content) {
  const std::string fresh = path + ".new";
  const FileDescriptor file{
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)};
  if (!file || ::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
      ::rename(fresh.c_str(), path.c_str()) != 0) {
    return fail("E1531", fmt::format("{} cannot be written: {}.", path, std::strerror(errno)),
                "Free some space there: what was changed would be lost at the daemon's next start.", 1);
  }
  return {};
}

}  // namespace ration::node
