#include "base/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

namespace ration {
namespace {

// The flags that open a file for reading only, which is enough for a lock. With them, opening a file that ration did
// not make neither waits nor has side effects.
constexpr int kOpened = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

}  // namespace

bool FileLock::in_place() const noexcept {
  struct stat own {
  }, there{};
  return file && ::fstat(file.get(), &own) == 0 && ::lstat(path.c_str(), &there) == 0 && own.st_dev == there.st_dev &&
         own.st_ino == there.st_ino;
}

FileLock lock_file(const std::string& path) {
  FileLock lock;
  lock.path = path;
  FileDescriptor file{::open(path.c_str(), kOpened | O_CREAT, 0644)};
  if (!file) return lock;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0)
    lock.file = std::move(file);
  else
    lock.taken = errno == EWOULDBLOCK;
  return lock;
}

bool is_locked(const std::string& path) {
  const FileDescriptor file{::open(path.c_str(), kOpened)};
  return file && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Parses a line of /proc/locks: `1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF`.
std::optional<std::int32_t> lock_holder(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    int pid = 0;
    unsigned major = 0, minor = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line.c_str(), "%*d: FLOCK ADVISORY WRITE %d %x:%x:%llu", &pid, &major, &minor, &inode) == 4 &&
        inode == status.st_ino && pid > 0)
      return pid;
  }
  return std::nullopt;
}

}  // namespace ration
