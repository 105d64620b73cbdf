#include "base/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file.hpp"

namespace ration {
namespace {

struct ProcessStat {
  char state = 0;
  long threads = 0;
  std::uint64_t start_time = 0;
};

// Fields of /proc/PID/stat, counted after the command, which is in parentheses and may hold any character.
constexpr int kStateField = 0;
constexpr int kThreadsField = 17;
constexpr int kStartTimeField = 19;

bool read_stat(const char* path, ProcessStat& out) noexcept {
  const FileDescriptor file{::open(path, O_RDONLY | O_CLOEXEC)};
  if (!file) return false;
  char text[1024];
  const ssize_t length = ::read(file.get(), text, sizeof text - 1);
  if (length <= 0) return false;
  text[length] = '\0';
  char* cursor = std::strrchr(text, ')');
  if (cursor == nullptr || cursor[1] == '\0') return false;
  ++cursor;
  for (int field = kStateField; field <= kStartTimeField; ++field) {
    while (*cursor == ' ') ++cursor;
    if (*cursor == '\0') return false;
    if (field == kStateField) out.state = *cursor;
    if (field == kThreadsField) out.threads = std::strtol(cursor, nullptr, 10);
    if (field == kStartTimeField) out.start_time = std::strtoull(cursor, nullptr, 10);
    while (*cursor != ' ' && *cursor != '\0') ++cursor;
  }
  return true;
}

}  // namespace

std::uint64_t own_pid_namespace() noexcept {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

ProcessIdentity current_process() noexcept {
  ProcessIdentity self;
  self.pid = ::getpid();
  self.user = ::getuid();
  self.pid_namespace = own_pid_namespace();
  // Reads the file of the first thread, as other processes do: under an emulator (qemu-user) /proc/self/stat may differ
  // by a tick.
  char path[48];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", self.pid);
  ProcessStat stat;
  if (read_stat(path, stat) || read_stat("/proc/self/stat", stat)) self.start_time = stat.start_time;
  return self;
}

std::optional<ProcessIdentity> identity_of(std::int32_t pid) noexcept {
  char path[32];
  ProcessStat stat;
  struct stat folder {};
  std::snprintf(path, sizeof path, "/proc/%d", pid);
  if (pid <= 0 || ::stat(path, &folder) != 0) return std::nullopt;
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (!read_stat(path, stat)) return std::nullopt;
  return ProcessIdentity{stat.start_time, own_pid_namespace(), pid, folder.st_uid};
}

bool is_stopped(std::int32_t thread) noexcept {
  char path[32];
  ProcessStat stat;
  std::snprintf(path, sizeof path, "/proc/%d/stat", thread);
  return read_stat(path, stat) && stat.state == 'T';
}

Liveness liveness(const ProcessIdentity& process) noexcept { return liveness(process, own_pid_namespace()); }

Liveness liveness(const ProcessIdentity& process, std::uint64_t own_namespace) noexcept {
  if (process.pid <= 0) return Liveness::kDead;
  if (process.pid_namespace != own_namespace) return Liveness::kUnknown;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process.pid);
  ProcessStat stat;
  if (!read_stat(path, stat)) {
    // With hidepid a hidden process looks like an ended one, so kill(2) checks as well.
    return ::kill(process.pid, 0) != 0 && errno == ESRCH ? Liveness::kDead : Liveness::kUnknown;
  }
  if (process.start_time == 0) return Liveness::kUnknown;
  if (stat.start_time != process.start_time) return Liveness::kDead;
  if ((stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1) return Liveness::kDead;
  return Liveness::kAlive;
}

}  // namespace ration
