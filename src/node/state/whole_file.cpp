#include "node/state/whole_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/whole_file.hpp"

namespace ration::node {

Result<void> write_whole_file(const std::string& path, const std::string& content) {
  if (write_whole(path, content, 0600)) return {};
  return fail("E1531", fmt::format("{} cannot be written: {}.", path, std::strerror(errno)),
              "Free some space there: what was changed would be lost at the daemon's next start.", 1);
}

}  // namespace ration::node
