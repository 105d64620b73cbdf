#include "host_pid.hpp"

#include <sys/stat.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/process.hpp"

namespace ration::sim {
namespace {

namespace fs = std::filesystem;

/// Returns the process's number in its own pid namespace, the innermost one; 0 if the process has ended.
std::int32_t inner_pid(const fs::path& process) {
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("NSpid:", 0) != 0) continue;
    std::istringstream numbers(line.substr(6));
    std::int32_t number = 0;
    while (numbers >> number) {
    }
    return number;
  }
  return 0;
}

}  // namespace

std::int32_t pid_here(std::int32_t pid, std::uint64_t pid_namespace) {
  if (pid_namespace == own_pid_namespace()) return pid;
  std::error_code error;
  for (fs::directory_iterator each("/proc", error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename().string();
    std::int32_t number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec != std::errc{}) continue;
    struct stat space {};
    const std::string place = each->path().string() + "/ns/pid";
    if (::stat(place.c_str(), &space) == 0 && space.st_ino == pid_namespace && inner_pid(each->path()) == pid)
      return number;
  }
  return 0;
}

}  // namespace ration::sim
