// Identifies a process by more than its number, so that a reused pid is never taken for its earlier process. Used by
// the book, the simulator and the command line. Promises: no allocation; reads only /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ration {

/// A process, unique while the machine is up. `start_time` is field 22 of /proc/PID/stat (clock ticks since boot),
/// `pid_namespace` the inode of /proc/PID/ns/pid; each is 0 if it could not be read.
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
  kUnknown,  ///< the process is in another pid namespace or hidden, or its start time is unknown (0)
};

/// Returns the calling process.
[[nodiscard]] ProcessIdentity current_process() noexcept;

/// Returns the process with that number in this pid namespace; absent if there is none, or if it cannot be seen.
[[nodiscard]] std::optional<ProcessIdentity> identity_of(std::int32_t pid) noexcept;

/// Returns whether the process still runs. A zombie without other living threads counts as dead, because its memory has
/// been given back.
[[nodiscard]] Liveness liveness(const ProcessIdentity& process) noexcept;
/// Returns the same, for callers that check many processes and call own_pid_namespace() once.
[[nodiscard]] Liveness liveness(const ProcessIdentity& process, std::uint64_t own_namespace) noexcept;

/// Returns true if a signal, not a debugger, has stopped that thread of this pid namespace.
[[nodiscard]] bool is_stopped(std::int32_t thread) noexcept;

/// Returns this process's pid namespace; 0 if it cannot be read. The namespace never changes for a process, but a child
/// may have another.
[[nodiscard]] std::uint64_t own_pid_namespace() noexcept;

}  // namespace ration
