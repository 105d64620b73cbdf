// Where a process came from, read off /proc: for people who find memory held by a process that nobody governs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ration::machine {

struct Origin {
  std::string user, command;
  std::string container;  ///< engine and the beginning of its id: `docker:4f2a91c03b77`; empty: in none
  std::string how;        ///< `ssh session 3`, `cron.service`; empty: its cgroup does not tell
};

/// Of a process of this host. Whatever cannot be read stays empty.
[[nodiscard]] Origin origin_of(std::int32_t pid);

/// Whether that process is in another pid namespace than this one, as those of containers are. One that cannot be seen
/// is.
[[nodiscard]] bool is_in_another_namespace(std::int32_t pid);

/// The same, from the path of a cgroup alone.
[[nodiscard]] Origin origin_of_cgroup(const std::string& cgroup);

/// Whether `pid` is `ancestor`, or was started by it or by one of its descendants that still lives.
[[nodiscard]] bool descends_from(std::int32_t pid, std::int32_t ancestor);

/// Returns the content of a file; empty: it cannot be read, or read_whole() reads no such file.
[[nodiscard]] std::string content_of(const std::string& path);

struct Opener {
  std::int32_t pid = 0;
  std::string command;
  char state = '?';  ///< as in /proc/PID/stat: D waits in the kernel and cannot be killed
};

/// Who has the file open, as far as this user may look. Reads all of /proc: not for every look.
[[nodiscard]] std::vector<Opener> openers_of(const std::string& path);

/// In the namespace of `pid`: its own number there, and that namespace. False: it cannot be read.
[[nodiscard]] bool inner_identity(std::int32_t pid, std::int32_t& inner_pid, std::uint64_t& pid_namespace);

}  // namespace ration::machine
