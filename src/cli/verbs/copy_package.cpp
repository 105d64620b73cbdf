// `ration copy-package FOLDER`: copies this package to a folder where a node's programs and containers find it. Used by
// the init container of share/ration/kubernetes/daemon. Promises: at every moment, each file there is either the old or
// the new one, whole; a file in use is replaced and never written into; an unchanged file stays.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/whole_file.hpp"
#include "cli/start/guarded.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;

/// The files of a package that a node needs. In an image, other files lie beside them.
constexpr const char* kParts[] = {"bin/ration", "bin/ration-workload", "bin/ration-sim-truth",
                                  "lib/ration", "share/ration",        "share/doc/ration/site"};

constexpr std::size_t kLargestFile = std::size_t{256} << 20;  // bytes; the largest program has 15 MiB

Result<void> replace_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  struct stat status {};
  const auto content = read_whole(from, kLargestFile);
  if (!content)
    return fail("E1716", fmt::format("{} cannot be read: {}.", from.string(), content.error()),
                "Install the whole package again.", 1);
  if (read_whole(to, kLargestFile) == content) return {};
  fs::create_directories(to.parent_path(), error);
  errno = error.value();
  if (!error && ::stat(from.c_str(), &status) == 0 && write_whole(to, *content, status.st_mode & 0777)) return {};
  return fail("E1716", fmt::format("{} cannot be written: {}.", to.string(), std::strerror(errno)),
              "df -h " + to.parent_path().parent_path().string(), 1);
}

}  // namespace

Result<int> copy_package(const std::string& folder) {
  RATION_TRY(library_folder("shim"));
  const fs::path package = fs::path(companion("ration")).parent_path().parent_path();
  for (const char* part : kParts) {
    std::error_code none, unknown;
    std::vector<fs::path> files;
    if (fs::is_regular_file(package / part, unknown)) files.push_back(package / part);
    for (fs::recursive_directory_iterator each(package / part, none), end; !none && each != end; each.increment(none))
      if (each->is_regular_file(unknown)) files.push_back(each->path());
    for (const fs::path& file : files)
      if (auto replaced = replace_file(file, folder / file.lexically_relative(package)); !replaced)
        return tl::unexpected(replaced.error());
  }
  RATION_TRY(check_guard_files(folder + "/lib/ration/shim", false));
  fmt::print("{} has ration {}\n", folder, RATION_VERSION);
  return 0;
}

}  // namespace ration::cli
