#include "machine/process_signals.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/file.hpp"

namespace ration::machine {

void add_descendants(std::int32_t pid, std::vector<ProcessIdentity>& found) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", pid));
  for (std::int32_t child = 0; children >> child;) {
    const auto identity = identity_of(child);
    if (!identity) continue;
    found.push_back(*identity);
    add_descendants(child, found);
  }
}

std::vector<ProcessIdentity> with_descendants_of(const std::vector<std::int32_t>& pids,
                                                 const std::function<bool(std::uint32_t)>& is_owner) {
  std::vector<ProcessIdentity> all;
  for (const std::int32_t pid : pids)
    if (const auto identity = identity_of(pid)) {
      all.push_back(*identity);
      add_descendants(pid, all);
    }
  std::erase_if(all, [&](const ProcessIdentity& each) { return !is_owner(each.user); });
  return all;
}

void keep_alive_only(std::vector<ProcessIdentity>& processes) {
  std::erase_if(processes, [](const ProcessIdentity& each) {
    return each.pid == ::getpid() || liveness(each) != Liveness::kAlive;
  });
}

std::optional<std::int32_t> send_signal(const std::vector<ProcessIdentity>& processes, int signal) {
  for (const ProcessIdentity& process : processes) {
    const FileDescriptor handle{static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0))};
    // Compares the identity after opening the handle, so that the handle is of that process.
    if (!handle || liveness(process) != Liveness::kAlive) continue;
    if (::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) != 0 && errno != ESRCH) return process.pid;
  }
  return std::nullopt;
}

}  // namespace ration::machine
