// The identity of a process beyond its number: a reused pid is never taken for the process that had it before. Used by
// the book, the simulator and the command line. Promises: no allocation, reads only /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ration {

/// A process, unique for the machine's uptime. `start_time` is field 22 of /proc/PID/stat (clock ticks since boot),
/// `pid_namespace` the inode of /proc/PID/ns/pid. Either is 0 if it could not be read.
struct ProcessIdentity {
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  std::int32_t pid = 0;
  std::uint32_t user = 0;

  [[nodiscard]] bool same_as(const ProcessIdentity& other) const noexcept {
    return pid == other.pid && start_time == other.start_time && pid_namespace == other.pid_namespace;
  }
};

enum class Liveness {
  kAlive,
  kDead,
  kUnknown,  ///< its pid namespace is invisible to the caller, or it could not read its own start time
};

/// Returns the calling process.
[[nodiscard]] ProcessIdentity current_process() noexcept;

/// Returns the process with that number in the caller's namespace. Absent: there is none, or it cannot be seen.
[[nodiscard]] std::optional<ProcessIdentity> identity_of(std::int32_t pid) noexcept;

/// Returns whether that process still runs. A zombie is dead (its memory has been given back) unless other threads of
/// it live.
[[nodiscard]] Liveness liveness(const ProcessIdentity& process) noexcept;
/// As above, for callers that ask about many processes and read own_pid_namespace() once.
[[nodiscard]] Liveness liveness(const ProcessIdentity& process, std::uint64_t own_namespace) noexcept;

/// Returns true if that thread of the caller's pid namespace is stopped by a signal (not by a debugger).
[[nodiscard]] bool is_stopped(std::int32_t thread) noexcept;

/// Returns the calling process's pid namespace; 0: it cannot be read. It does not change while the process lives; a
/// child may have another.
[[nodiscard]] std::uint64_t own_pid_namespace() noexcept;

}  // namespace ration
