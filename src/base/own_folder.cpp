#include "base/own_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/stable_hash.hpp"

namespace ration {
namespace {

bool is_own(const std::string& folder) {
  struct stat status {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::getuid();
}

bool others_can_write(const std::string& folder) {
  struct stat status {};
  return ::lstat(folder.c_str(), &status) != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/// Returns this user's own folder among `/tmp/NAME.XXXXXX`; empty if there is none.
std::string unguessable_folder(const std::string& name) {
  std::string found;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/tmp", error), end; !error && each != end; each.increment(error)) {
    if (each->path().filename().string().rfind(name + ".", 0) != 0 || !is_own(each->path())) continue;
    if (found.empty() || each->path() < found) found = each->path();
  }
  return found;
}

/// Makes the folder if it is missing; any user may own it. Returns an empty text if the folder can be used as `use`
/// demands, or the reason why it cannot.
std::string make_trusted_folder(const std::string& folder, int use, mode_t mode = 0700) {
  if (::mkdir(folder.c_str(), 0700) == 0)
    ::chmod(folder.c_str(), mode);  // whatever the umask is
  else if (errno != EEXIST)
    return std::strerror(errno);
  return ::access(folder.c_str(), use) == 0 ? "" : std::strerror(errno);
}

/// Returns the mode of nodes in a folder: whoever may make nodes there may also use those of others.
mode_t mode_of_nodes(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return 0700;
  return 0700 | ((status.st_mode & S_IWGRP) != 0 ? 0070 : 0) | ((status.st_mode & S_IWOTH) != 0 ? 0007 : 0);
}

/// Returns why a process of this user cannot join the node whose state lies in the folder; empty if it can.
std::string unusable_state(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename();  // `state` and a number for its layout
    struct stat status {};
    if (name.rfind("state", 0) != 0 || ::lstat(each->path().c_str(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode)) return name + " is not a plain file";
    if (::access(each->path().c_str(), R_OK | W_OK) != 0)
      return fmt::format("{} belongs to uid {}: {}", name, status.st_uid, std::strerror(errno));
  }
  return "";
}

}  // namespace

std::string real_path(const std::string& path) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  if (error) return path;
  return real.has_filename() ? real : real.parent_path();
}

std::string with_real_path(const std::string& description) {
  constexpr std::string_view kDriver = "driver=";
  const std::size_t driver = description.find(kDriver);
  const std::size_t begin = driver == std::string::npos ? 0 : driver + kDriver.size();
  const std::size_t end = driver == std::string::npos ? description.size() : description.find(',', begin);
  const std::string path = description.substr(begin, end - begin);
  if (!path.ends_with(".toml")) return description;
  return description.substr(0, begin) + real_path(path) + description.substr(begin + path.size());
}

std::string make_own_folder(const std::string& folder, mode_t mode) {
  const bool made = ::mkdir(folder.c_str(), mode) == 0;
  const int problem = errno;
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return fmt::format("cannot be made: {}", std::strerror(problem));
  if (S_ISLNK(status.st_mode)) return "is a symbolic link";
  if (!S_ISDIR(status.st_mode)) return "is not a folder";
  if (status.st_uid != ::getuid()) return fmt::format("belongs to uid {}", status.st_uid);
  if (made && (status.st_mode & mode) != mode) ::chmod(folder.c_str(), mode);
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : "cannot be written";
}

std::string own_folder_in_tmp(const std::string& prefix) {
  const std::string name = fmt::format("{}-{}", prefix, ::getuid());
  if (std::string found = unguessable_folder(name); !found.empty()) return found;
  std::string folder = "/tmp/" + name;
  if (make_own_folder(folder, 0700).empty() && !others_can_write(folder)) return folder;
  std::string pattern = folder + ".XXXXXX";
  return ::mkdtemp(pattern.data()) == nullptr ? folder : pattern;
}

std::string own_runtime_folder() {
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  return given != nullptr && *given == '/' && is_own(given) ? real_path(given) : "";
}

std::string simulated_nodes_folder() {
  if (const char* given = std::getenv("RATION_SIM_DIR"); given != nullptr && *given != '\0') return real_path(given);
  const std::string name = fmt::format("ration-sim-{}", ::getuid()), runtime = own_runtime_folder();
  if (!runtime.empty()) return runtime + "/" + name;
  const std::string found = unguessable_folder(name);
  return real_path(found.empty() ? "/tmp/" + name : found);
}

SimulatedNodeFolder simulated_node_folder(const std::string& description) {
  SimulatedNodeFolder node;
  const std::string what = with_real_path(description);
  const std::string name = "/" + std::to_string(stable_hash(what) & 0xffffffff);
  if (const char* given = std::getenv("RATION_SIM_DIR"); given != nullptr && *given != '\0') {
    node.path = real_path(given);
    node.problem = make_trusted_folder(node.path, X_OK);
    if (!node.problem.empty()) return node;
    const mode_t mode = mode_of_nodes(node.path);
    node.path += name;
    node.problem = make_trusted_folder(node.path, R_OK | W_OK | X_OK, mode);
    if (!node.problem.empty()) return node;
  } else {
    const std::string runtime = own_runtime_folder();
    node.path = runtime.empty() ? real_path(own_folder_in_tmp("ration-sim"))
                                : fmt::format("{}/ration-sim-{}", runtime, ::getuid());
    node.problem = make_own_folder(node.path, 0700);
    if (!node.problem.empty()) return node;
    node.path += name;
    node.problem = make_own_folder(node.path, 0700);
    if (!node.problem.empty()) return node;
  }
  node.problem = unusable_state(node.path);
  return node;
}

}  // namespace ration
