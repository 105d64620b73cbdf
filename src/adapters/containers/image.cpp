#include "adapters/containers/image.hpp"

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <sstream>

#include "machine/elf_file.hpp"

namespace ration::adapters {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOldest = "GLIBC_2.17";  // a version name that every newer C library defines as well
/// The loader of glibc at its standard place; a loader elsewhere (NixOS) reads another preload file.
#if defined(__x86_64__)
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
#else
constexpr const char* kLoader = "/lib/ld-linux-aarch64.so.1";
#endif
constexpr const char* kUsualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the program's path inside the container; empty if it is not in PATH.
std::string program_in(const Container& container, const std::string& word) {
  if (word.find('/') != std::string::npos)
    return (fs::path(container.working_folder.empty() ? "/" : container.working_folder) / word).string();
  std::istringstream folders(container.path.empty() ? kUsualPath : container.path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string path = folder + "/" + word; !resolved_in(container.root, path).empty()) return path;
  return {};
}

/// Returns the interpreter that a script names in its first line; empty if the file is not a script.
std::string interpreter_of(const std::string& file) {
  std::string word;
  std::istringstream(machine::script_interpreter(file).value_or("")) >> word;
  return word;
}

std::string c_library_of(const std::string& root) {
#if defined(__x86_64__)
  const char* triplet = "x86_64-linux-gnu";
#else
  const char* triplet = "aarch64-linux-gnu";
#endif
  for (const std::string& folder :
       {fmt::format("/lib/{}", triplet), fmt::format("/usr/lib/{}", triplet), std::string("/lib64"),
        std::string("/usr/lib64"), std::string("/lib"), std::string("/usr/lib")})
    if (std::string found = resolved_in(root, folder + "/libc.so.6"); !found.empty()) return found;
  return {};
}

}  // namespace

std::string resolved_in(const std::string& root, const std::string& path) {
  constexpr int kMaxLinks = 40;  // the kernel's limit for links in one path
  std::deque<std::string> left;
  const auto prepend = [&](const fs::path& more) {
    std::deque<std::string> parts;
    for (const fs::path& part : more.relative_path()) parts.push_back(part.string());
    left.insert(left.begin(), parts.begin(), parts.end());
  };
  prepend(fs::path("/") / path);
  fs::path inside = "/";
  for (int links = 0; !left.empty();) {
    const std::string part = std::move(left.front());
    left.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      inside = inside.parent_path();
      continue;
    }
    std::error_code error;
    const fs::path here = root + (inside / part).string();
    if (!fs::is_symlink(fs::symlink_status(here, error))) {
      inside /= part;
      continue;
    }
    if (++links > kMaxLinks) return {};
    const fs::path target = fs::read_symlink(here, error);
    if (target.is_absolute()) inside = "/";
    prepend(target.is_absolute() ? target : "/" / target);
  }
  const std::string found = root + inside.string();
  std::error_code error;
  return fs::is_regular_file(found, error) ? found : "";
}

std::string why_not_held(const Container& container) {
  if (container.program.empty()) return "it starts no program";
  std::string path = program_in(container, container.program.front());
  std::string file = path.empty() ? "" : resolved_in(container.root, path);
  for (int depth = 0; depth < 4 && !file.empty(); ++depth) {
    const std::string interpreter = interpreter_of(file);
    if (interpreter.empty()) break;
    path = interpreter;
    file = resolved_in(container.root, interpreter);
  }
  const std::string library = c_library_of(container.root);
  // A missing program is not reported here: the runtime reports that it cannot start.
  const auto elf = file.empty() ? std::nullopt : machine::read_elf(file);
  if (elf && !elf->problem.empty()) return fmt::format("{}: {}", path, elf->problem);
  if (elf && elf->interpreter.find("musl") != std::string::npos)
    return fmt::format("{} uses the musl C library, and the guard needs glibc", path);
  if (elf && !elf->interpreter.empty() && elf->interpreter != kLoader)
    return fmt::format("{} is started by {}, which might not load the guard", path, elf->interpreter);
  if (library.empty())
    return "there is no glibc in its image, so the guard cannot be loaded into the programs that it starts";
  if (!machine::has_text(library, kOldest)) return "the glibc in its image is older than 2.17, which the guard needs";
  return {};
}

}  // namespace ration::adapters
