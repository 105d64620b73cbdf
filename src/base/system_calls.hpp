// System calls that the kernel has and the oldest C library that ration runs on (glibc 2.17) does not name: getrandom
// (since 2.25), memfd_create (2.27), statx (2.28), gettid (2.30). For the shim too: libc alone, no allocation.
#pragma once

#include <linux/memfd.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace ration {

/// A file in memory, closed in programs that are executed; negative with errno. `name` shows in /proc/PID/fd alone.
[[nodiscard]] inline int memory_file(const char* name) noexcept {
  return static_cast<int>(::syscall(SYS_memfd_create, name, MFD_CLOEXEC));
}

/// False: the kernel had none to give.
[[nodiscard]] inline bool random_bytes(void* out, std::size_t size) noexcept {
  return ::syscall(SYS_getrandom, out, size, 0) == static_cast<long>(size);
}

[[nodiscard]] inline pid_t this_thread_id() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

/// When the file was made, in nanoseconds since 1970; 0 where its file system does not say.
[[nodiscard]] inline std::uint64_t birth_time_ns(int file) noexcept {
  constexpr int kEmptyPath = 0x1000;  // AT_EMPTY_PATH
  struct statx status {};
  if (::syscall(SYS_statx, file, "", kEmptyPath, STATX_BTIME, &status) != 0) return 0;
  if ((status.stx_mask & STATX_BTIME) == 0) return 0;
  return static_cast<std::uint64_t>(status.stx_btime.tv_sec) * 1'000'000'000U + status.stx_btime.tv_nsec;
}

}  // namespace ration
