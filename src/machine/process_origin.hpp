// Reads from /proc where a process comes from, for people who find memory that an ungoverned process holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ration::machine {

struct Origin {
  std::string user, command;
  std::optional<std::uint32_t> uid;  ///< absent if the process has ended
  std::string container;  ///< engine and beginning of the container's id: `docker:4f2a91c03b77`; empty if in none
  std::string how;        ///< `login session 3`, `cron.service`; empty if its cgroup names neither
};

/// Returns the origin of a process of this machine. Unreadable parts stay empty.
[[nodiscard]] Origin origin_of(std::int32_t pid);

/// Returns the value with which the process was started; empty if the variable was not set; absent if this user may not
/// read the environment of the process.
[[nodiscard]] std::optional<std::string> variable_of(std::int32_t pid, const std::string& name);

/// Returns true if the process is in another pid namespace than this process, as in a container, or if that cannot be
/// seen.
[[nodiscard]] bool is_in_another_namespace(std::int32_t pid);

/// Returns the part of an origin that the path of a cgroup shows: `container` and `how`.
[[nodiscard]] Origin origin_of_cgroup(const std::string& cgroup);

/// Returns true if `pid` is `ancestor` or descends from it through processes that still live.
[[nodiscard]] bool descends_from(std::int32_t pid, std::int32_t ancestor);

/// Returns true if the process has mapped a file whose path contains `part`; absent if its mappings cannot be read.
[[nodiscard]] std::optional<bool> has_mapped(std::int32_t pid, std::string_view part);

/// Returns the content of a file; empty if read_whole() cannot read it.
[[nodiscard]] std::string content_of(const std::string& path);

struct Opener {
  std::int32_t pid = 0;
  std::string command;
  char state = '?';  ///< as in /proc/PID/stat; a process in state D waits in the kernel and cannot be killed
};

/// Returns up to eight processes that have the file open, as far as this user may see them. Reads all of /proc, so it
/// is too slow for every tick.
[[nodiscard]] std::vector<Opener> openers_of(const std::string& path);

/// Reads the pid that the process has in its own pid namespace, and that namespace. Returns false if one of them cannot
/// be read.
[[nodiscard]] bool inner_identity(std::int32_t pid, std::int32_t& inner_pid, std::uint64_t& pid_namespace);

}  // namespace ration::machine
