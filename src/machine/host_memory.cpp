#include "machine/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/strings.hpp"

namespace ration::machine {
namespace {

/// Reads a file with a single number. Returns nothing if the file has no number, such as a limit `max`.
std::optional<Bytes> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(Bytes{number}) : std::nullopt;
}

/// Returns the number after a word in a file with a word and a number on each line; 0 if the word is missing.
Bytes number_after(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t number = 0;
  for (std::string line; std::getline(file, line);)
    if (std::istringstream words(line); words >> name >> number && name == word) return Bytes{number};
  return Bytes{0};
}

/// The folder of the memory hierarchy and the names of its files in one version of cgroups.
struct Version {
  std::string folder, limit, used, cache;
};

void look_upwards(const std::string& root, const Version& version, std::string group, std::optional<GroupRoom>& room) {
  for (;;) {
    const std::string folder = root + version.folder + group;
    const auto limit = number_in(folder + "/" + version.limit), used = number_in(folder + "/" + version.used);
    if (limit && used) {
      const Bytes cache = std::min(*used, number_after(folder + "/memory.stat", version.cache));
      const Bytes taken = *used - cache, left = *limit - std::min(*limit, taken);
      if (!room || left < room->left) room = GroupRoom{folder, left};
    }
    if (group.empty()) return;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

Bytes host_memory_total() { return Bytes{number_after("/proc/meminfo", "MemTotal:").count() << 10}; }

Bytes host_memory_available() { return Bytes{number_after("/proc/meminfo", "MemAvailable:").count() << 10}; }

std::optional<GroupRoom> room_in_memory_group(const std::string& listed, const std::string& root) {
  std::optional<GroupRoom> room;
  std::istringstream lines(listed);
  for (std::string line; std::getline(lines, line);) {  // a line is NUMBER:CONTROLLERS:PATH
    const auto number = split_once(line, ':');
    const auto parts = number ? split_once(number->second, ':') : std::nullopt;
    if (!parts || !parts->second.starts_with('/')) continue;
    const std::string controllers = "," + std::string(parts->first) + ",";
    std::string group(parts->second);
    if (group == "/") group.clear();
    if (controllers == ",,")
      look_upwards(root, {"", "memory.max", "memory.current", "inactive_file"}, group, room);
    else if (controllers.find(",memory,") != std::string::npos)
      look_upwards(root, {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}, group,
                   room);
  }
  return room;
}

std::optional<GroupRoom> room_in_memory_group(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cgroup", pid));
  std::ostringstream text;
  text << file.rdbuf();
  return room_in_memory_group(text.str(), "/sys/fs/cgroup");
}

}  // namespace ration::machine
