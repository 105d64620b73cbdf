// System calls that the oldest supported C library (glibc 2.17) lacks: getrandom (since 2.25), memfd_create (2.27),
// statx (2.28), gettid (2.30). Also used by the guard, so they need libc alone and allocate nothing.
#pragma once

#include <linux/memfd.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace ration {

/// Makes a file in memory that is closed on exec. Returns a negative number with errno on failure. `name` shows only in
/// /proc/PID/fd.
[[nodiscard]] inline int memory_file(const char* name) noexcept {
  return static_cast<int>(::syscall(SYS_memfd_create, name, MFD_CLOEXEC));
}

/// Fills the buffer with random bytes. Returns false if the kernel did not fill the whole buffer.
[[nodiscard]] inline bool random_bytes(void* out, std::size_t size) noexcept {
  return ::syscall(SYS_getrandom, out, size, 0) == static_cast<long>(size);
}

[[nodiscard]] inline pid_t this_thread_id() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

/// Returns the file's time of birth in nanoseconds since 1970; 0 if its file system does not record it.
[[nodiscard]] inline std::uint64_t birth_time_ns(int file) noexcept {
  constexpr int kEmptyPath = 0x1000;  // AT_EMPTY_PATH
  struct statx status {};
  if (::syscall(SYS_statx, file, "", kEmptyPath, STATX_BTIME, &status) != 0) return 0;
  if ((status.stx_mask & STATX_BTIME) == 0) return 0;
  return static_cast<std::uint64_t>(status.stx_btime.tv_sec) * 1'000'000'000U + status.stx_btime.tv_nsec;
}

}  // namespace ration
