#include "adapters/containers/container_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/file.hpp"

namespace ration::adapters {
namespace {

/// Opens the place `inside` below `root` without following a link; invalid if it does not exist or a link is on the
/// way.
FileDescriptor open_below(const std::string& root, const std::string& inside) {
  FileDescriptor at{::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  for (const auto& part : std::filesystem::path(inside).relative_path())
    if (at) at = FileDescriptor{::openat(at.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)};
  return at;
}

bool is_same_file(int one, const struct stat& other) {
  struct stat status {};
  return ::fstat(one, &status) == 0 && status.st_dev == other.st_dev && status.st_ino == other.st_ino;
}

constexpr int kNoNamespace = 1, kNoPlace = 2, kNoMount = 3, kNoGuard = 4;

// System calls of Linux 5.2, with the same numbers on every architecture; older headers lack them.
constexpr long kOpenTree = 428, kMoveMount = 429;
constexpr unsigned kClone = 1, kFromEmptyPath = 0x04, kToEmptyPath = 0x40;

/// Returns a mount of the file that can be moved into any mount namespace; invalid if this kernel lacks open_tree(2).
FileDescriptor detached_mount_of(const std::string& file) {
  return FileDescriptor{static_cast<int>(::syscall(kOpenTree, AT_FDCWD, file.c_str(), kClone | O_CLOEXEC))};
}

bool mount_on_itself(const FileDescriptor& folder) {
  const std::string place = fmt::format("/proc/self/fd/{}", folder.get());
  return folder && ::mount(place.c_str(), place.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

struct Mounting {
  int space, detached;
  const std::string& root;
  bool read_only_root;
  const std::string &file, &inside;
  std::map<std::string, struct stat> guards;
};

int mount_as_child(const Mounting& mounting) {
  const auto& [space, detached, root, read_only_root, file, inside, guards] = mounting;
  if (::setns(space, CLONE_NEWNS) != 0) return kNoNamespace;
  for (const auto& [place, expected] : guards) {
    const FileDescriptor there = open_below(root, place);
    if (!there || !is_same_file(there.get(), expected)) return kNoGuard;
  }
  const std::string folder = std::filesystem::path(kPreloadFile).parent_path();
  if (!read_only_root && !mount_on_itself(open_below(root, folder))) return kNoMount;
  const FileDescriptor place = open_below(root, inside);
  if (!place) return kNoPlace;
  const std::string target = fmt::format("/proc/self/fd/{}", place.get());
  // Without open_tree(2) the file is mounted by its path, which must then exist in the container's mounts as well.
  const bool put = detached >= 0
                       ? ::syscall(kMoveMount, detached, "", place.get(), "", kFromEmptyPath | kToEmptyPath) == 0
                       : ::mount(file.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) == 0;
  if (!put) return kNoMount;
  const FileDescriptor mounted = open_below(root, inside);  // finds the mount just made, which lies on top
  const std::string again = fmt::format("/proc/self/fd/{}", mounted.get());
  constexpr unsigned long kFlags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  return mounted && ::mount(nullptr, again.c_str(), nullptr, kFlags, nullptr) == 0 ? 0 : kNoMount;
}

/// Runs the mounts in a child, because this process must not change its mount namespace. The child shares this
/// process's memory while this process waits: copying the memory would take as long as all the mounts.
int mount_in_child(const Mounting& mounting) {
  constexpr std::size_t kStack = std::size_t{256} << 10;
  const std::unique_ptr<std::byte[]> stack(new std::byte[kStack]);  // not zeroed, since most of it is never touched
  const auto child_main = [](void* given) { return mount_as_child(*static_cast<const Mounting*>(given)); };
  const pid_t child = ::clone(child_main, stack.get() + kStack, CLONE_VM | CLONE_VFORK | SIGCHLD,
                              const_cast<Mounting*>(&mounting));  // NOLINT: only read
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : kNoMount;
}

}  // namespace

Result<void> mount_in(std::int32_t pid, const std::string& root, bool read_only_root, const std::string& file,
                      const std::string& inside, const std::map<std::string, std::string>& guards) {
  const auto failed = [&](const std::string& why) {
    return fail("E1703", fmt::format("the container cannot be put under its limit: {}.", why),
                "Let the engine run its hooks as root, with an image that has glibc: ration help containers", 1);
  };
  const FileDescriptor space{::open(fmt::format("/proc/{}/ns/mnt", pid).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!space) return failed(fmt::format("its mount namespace: {}", std::strerror(errno)));
  const FileDescriptor detached = detached_mount_of(file);
  Mounting mounting{space.get(), detached.get(), root, read_only_root, file, inside, {}};
  for (const auto& [place, ours] : guards)
    if (::stat(ours.c_str(), &mounting.guards[place]) != 0)
      return failed(fmt::format("{}: {}", ours, std::strerror(errno)));
  switch (mount_in_child(mounting)) {
    case 0:
      return {};
    case kNoNamespace:
      return failed("this user may not enter its mount namespace");
    case kNoPlace:
      return failed(fmt::format("{} is not there, or a link leads to it", inside));
    case kNoGuard:
      return failed("its guard or /etc/ld.so.preload is not ration's: a volume or a link leads elsewhere");
    default:
      return failed("the kernel rejected the mount of its book, or of /etc");
  }
}

}  // namespace ration::adapters
