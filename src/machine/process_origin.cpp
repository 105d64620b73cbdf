#include "machine/process_origin.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "machine/user_names.hpp"

namespace ration::machine {
namespace {

/// Returns the last part of the path that ends with `ending`, without that ending.
std::string part_ending(const std::string& cgroup, const std::string& ending) {
  std::string found, part;
  std::istringstream parts(cgroup);
  while (std::getline(parts, part, '/')) {
    if (part.size() > ending.size() && part.ends_with(ending)) found = part.substr(0, part.size() - ending.size());
  }
  return found;
}

bool is_identifier(const std::string& text) {
  return text.size() >= 32 &&
         std::all_of(text.begin(), text.end(), [](unsigned char letter) { return std::isxdigit(letter) != 0; });
}

/// Returns the container that one part of the path names; empty if none. `above` is the part before it.
std::string container_named(const std::string& part, const std::string& above) {
  const std::size_t mark = part.find_last_of("-:");
  const std::string id = mark == std::string::npos ? part : part.substr(mark + 1);
  if (!is_identifier(id)) return {};
  std::string engine = mark == std::string::npos ? above : part.substr(0, mark);
  engine = engine.substr(engine.rfind(':') + 1);
  return fmt::format("{}:{}", engine.empty() ? "container" : engine, id.substr(0, 12));
}

// Returns the container of a cgroup. Where systemd manages cgroups, the engines (Docker, containerd, CRI-O, Podman)
// name the container's scope ENGINE-ID. Elsewhere the cgroup's folder names the container: ENGINE-ID (Podman),
// SLICE:ENGINE:ID (containerd), or ID below a folder that is named after the engine.
std::string container_in(const std::string& cgroup) {
  if (std::string named = container_named(part_ending(cgroup, ".scope"), ""); !named.empty()) return named;
  std::string part, above;
  std::istringstream parts(cgroup);
  while (std::getline(parts, part, '/')) {
    if (std::string named = container_named(part, above); !named.empty()) return named;
    above = part;
  }
  return {};
}

std::int32_t parent_of(std::int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // The second field is a name in parentheses, which may hold any character.
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string state;
  std::int32_t parent = 0;
  fields >> state >> parent;
  return parent;
}

}  // namespace

bool descends_from(std::int32_t pid, std::int32_t ancestor) {
  constexpr int kDeepest = 1000;  // bounds the walk if reused pids form a cycle
  for (int depth = 0; pid > 0 && depth < kDeepest; ++depth) {
    if (pid == ancestor) return true;
    pid = parent_of(pid);
  }
  return false;
}

std::optional<bool> has_mapped(std::int32_t pid, std::string_view part) {
  const std::string mappings = content_of(fmt::format("/proc/{}/maps", pid));
  if (mappings.empty()) return std::nullopt;
  return mappings.find(part) != std::string::npos;
}

std::string content_of(const std::string& path) { return read_whole(path).value_or(""); }

Origin origin_of_cgroup(const std::string& cgroup) {
  Origin origin;
  origin.container = container_in(cgroup);
  const std::string scope = part_ending(cgroup, ".scope");
  const std::string service = part_ending(cgroup, ".service");
  if (scope.rfind("session-", 0) == 0)
    origin.how = "login session " + scope.substr(8);
  else if (!service.empty() && service.rfind("user@", 0) != 0)
    origin.how = service + ".service";
  else if (!scope.empty() && origin.container.empty())
    origin.how = scope + ".scope";
  return origin;
}

std::optional<std::string> variable_of(std::int32_t pid, const std::string& name) {
  const std::string path = fmt::format("/proc/{}/environ", pid);
  if (!FileDescriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC)}) return std::nullopt;
  const std::string variables = '\0' + content_of(path), begin = '\0' + name + '=';
  const std::size_t at = variables.find(begin);
  return at == std::string::npos ? "" : variables.substr(at + begin.size()).c_str();
}

bool is_in_another_namespace(std::int32_t pid) {
  struct stat its_own {};
  return ::stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &its_own) != 0 || its_own.st_ino != own_pid_namespace();
}

Origin origin_of(std::int32_t pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  std::string cgroup = content_of(folder + "/cgroup");
  if (const std::size_t unified = cgroup.find("0::"); unified != std::string::npos)
    cgroup = cgroup.substr(unified + 3, cgroup.find('\n', unified) - unified - 3);
  Origin origin = origin_of_cgroup(cgroup);
  origin.command = content_of(folder + "/cmdline");
  std::replace(origin.command.begin(), origin.command.end(), '\0', ' ');
  origin.command.resize(origin.command.find_last_not_of(' ') + 1);
  origin.command = shortened(origin.command, 200);
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0) origin.user = user_name(status.st_uid), origin.uid = status.st_uid;
  return origin;
}

std::vector<Opener> openers_of(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::size_t kMaxOpeners = 8;
  std::vector<Opener> openers;
  std::error_code gone;
  for (fs::directory_iterator process("/proc", gone), end; !gone && process != end; process.increment(gone)) {
    std::int32_t pid = 0;
    const std::string name = process->path().filename();
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{}) continue;
    std::error_code hidden;
    for (fs::directory_iterator file(process->path() / "fd", hidden), last; !hidden && file != last;
         file.increment(hidden)) {
      std::error_code closed;
      if (fs::read_symlink(file->path(), closed) != path) continue;
      const std::string stat = content_of(fmt::format("/proc/{}/stat", pid));
      const std::size_t open = stat.find('('), close = stat.rfind(')');
      if (open == std::string::npos || close == std::string::npos || close + 2 >= stat.size()) break;
      openers.push_back({pid, stat.substr(open + 1, close - open - 1), stat[close + 2]});
      break;
    }
    if (openers.size() == kMaxOpeners) break;
  }
  return openers;
}

bool inner_identity(std::int32_t pid, std::int32_t& inner_pid, std::uint64_t& pid_namespace) {
  struct stat status {};
  if (::stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &status) != 0) return false;
  pid_namespace = status.st_ino;
  std::istringstream lines(content_of(fmt::format("/proc/{}/status", pid)));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("NSpid:", 0) != 0) continue;
    std::istringstream numbers(line.substr(6));
    while (numbers >> inner_pid) {  // pids from the outermost namespace to the process's own
    }
    return true;
  }
  return false;
}

}  // namespace ration::machine
