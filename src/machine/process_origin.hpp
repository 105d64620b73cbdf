// Reads the origin of a process from /proc, for people who find memory held by an ungoverned process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ration::machine {

struct Origin {
  std::string user, command;
  std::string container;  ///< engine and the beginning of its id: `docker:4f2a91c03b77`; empty: not in one
  std::string how;        ///< `ssh session 3`, `cron.service`; empty: its cgroup is unknown
};

/// Returns the origin of a process of this host. Unreadable parts stay empty.
[[nodiscard]] Origin origin_of(std::int32_t pid);

/// Returns true if that process is in another pid namespace than this one, as those of containers are, or if it cannot
/// be seen.
[[nodiscard]] bool is_in_another_namespace(std::int32_t pid);

/// As origin_of(), from the path of a cgroup alone.
[[nodiscard]] Origin origin_of_cgroup(const std::string& cgroup);

/// Returns true if `pid` is `ancestor`, or was started by it or by one of its descendants that still lives.
[[nodiscard]] bool descends_from(std::int32_t pid, std::int32_t ancestor);

/// Returns the content of a file; empty: it cannot be read, or is none that read_whole() reads.
[[nodiscard]] std::string content_of(const std::string& path);

struct Opener {
  std::int32_t pid = 0;
  std::string command;
  char state = '?';  ///< as in /proc/PID/stat: D waits in the kernel and cannot be killed
};

/// Returns the processes that have the file open, as far as this user may see them. Reads all of /proc, so it is too
/// slow for every tick.
[[nodiscard]] std::vector<Opener> openers_of(const std::string& path);

/// Returns the number of `pid` in its own namespace, and that namespace. False: it cannot be read.
[[nodiscard]] bool inner_identity(std::int32_t pid, std::int32_t& inner_pid, std::uint64_t& pid_namespace);

}  // namespace ration::machine
