#include "guard/recorder/part_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "guard/environment.hpp"
#include "guard/recorder/ticks.hpp"

namespace ration::guard {

Part part;

namespace {

/// The smallest and the largest step in which space is reserved. The steps grow with the file.
constexpr std::uint64_t kLeastStep = std::uint64_t{256} << 10, kMostStep = std::uint64_t{4} << 20;

/// A file that is open only while some of it is mapped or written. A program may close every descriptor, so no
/// descriptor is kept. The system calls are made directly, since the functions of the C library are cancellation
/// points.
class OpenFile {
 public:
  OpenFile(const char* path, int flags) noexcept
      : file_(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600))) {}
  ~OpenFile() {
    if (file_ >= 0) ::syscall(SYS_close, file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return file_ >= 0; }

  /// Reserves space, so that no access to it can fail later. Returns the errno value of a failure, or 0.
  [[nodiscard]] int reserve(std::uint64_t offset, std::uint64_t size) const noexcept {
    if (!may_reach(offset + size)) return EFBIG;
    for (;;) {
      if (::syscall(SYS_fallocate, file_, 0, offset, size) == 0) return 0;
      if (errno == EOPNOTSUPP) return fill(offset, size);
      if (errno != EINTR) return errno;
    }
  }
  [[nodiscard]] void* map(std::uint64_t offset, std::size_t size) const noexcept {
    void* place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(offset));
    if (place == MAP_FAILED) return nullptr;
    ::madvise(place, size, MADV_DONTFORK);
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
    // If reserved space does not exist after all, this call fails; without it, a later access would raise a signal.
    if (::madvise(place, size, kPopulateWrite) == 0 || errno == EINVAL) return place;
    const int error = errno;
    ::munmap(place, size);
    errno = error;
    return nullptr;
  }
  /// Writes bytes into reserved space. Returns the errno value of a failure, or 0.
  [[nodiscard]] int write(std::uint64_t offset, const void* bytes, std::size_t size) const noexcept {
    if (!may_reach(offset + size)) return EFBIG;
    for (std::size_t done = 0; done < size;) {
      const long written =
          ::syscall(SYS_pwrite64, file_, static_cast<const char*>(bytes) + done, size - done, offset + done);
      if (written > 0)
        done += static_cast<std::size_t>(written);
      else if (written == 0 || errno != EINTR)
        return written == 0 ? ENOSPC : errno;
    }
    return 0;
  }

 private:
  /// Returns false if the system would send a signal to a process whose file grows to `size`.
  [[nodiscard]] static bool may_reach(std::uint64_t size) noexcept {
    rlimit limit{};
    return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
  }
  [[nodiscard]] int fill(std::uint64_t offset, std::uint64_t size) const noexcept {
    static constexpr char kZeros[4096] = {};
    for (std::uint64_t done = 0; done < size; done += sizeof kZeros)
      if (const int error = write(offset + done, kZeros, sizeof kZeros); error != 0) return error;
    return 0;
  }

  const int file_;
};

/// Reserves space for a chunk and returns its offset. If there is no space, returns 0 and sets `error`.
std::uint64_t take_offset(const OpenFile& file, int& error) noexcept {
  const SpinGuard guard(part.growing);
  PartHeader& header = *part.header;
  const std::uint64_t offset = header.next.load(std::memory_order_relaxed);
  std::uint64_t space = header.space.load(std::memory_order_relaxed);
  if (offset + kChunkSize > space) {
    const std::uint64_t step = std::clamp(space / kChunkSize * kChunkSize, kLeastStep, kMostStep);
    error = file.reserve(space, step);
    if (error == 0)
      space += step;
    else if (error == ENOSPC && (error = file.reserve(space, kChunkSize)) == 0)
      space += kChunkSize;
    header.space.store(space, std::memory_order_relaxed);
    if (offset + kChunkSize > space) return 0;
  }
  header.next.store(offset + kChunkSize, std::memory_order_relaxed);
  return offset;
}

/// Maps a new chunk as the home of a thread. If that fails, returns null and sets `error`.
char* take_home(const OpenFile& file, int& error) noexcept {
  const std::uint64_t offset = take_offset(file, error);
  if (offset == 0) return nullptr;
  auto* home = static_cast<char*>(file.map(offset, kChunkSize));
  if (home == nullptr) {
    error = errno;
    return nullptr;
  }
  auto* header = reinterpret_cast<ChunkHeader*>(home);
  header->home = offset;
  header->thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  header->began = anchor_now();
  std::atomic_thread_fence(std::memory_order_release);  // readers accept a home once it has the magic number
  header->magic = kChunkMagic;
  return home;
}

/// Appends a copy of a full home to the file, and empties the home. Writing a chunk takes a tenth of the time that the
/// system needs to map 64 KiB of a file on a disk, page by page. Returns the errno value of a failure, or 0.
int append_copy(const OpenFile& file, char* home) noexcept {
  auto* header = reinterpret_cast<ChunkHeader*>(home);
  int error = 0;
  const std::uint64_t offset = take_offset(file, error);
  if (offset == 0) return error;
  // The header is written last, so that a copy that was begun and failed does not count.
  error = file.write(offset + sizeof *header, header + 1, kChunkSize - sizeof *header);
  if (error == 0) error = file.write(offset, header, sizeof *header);
  if (error != 0) return error;
  const std::uint64_t next_fill = header->fill.load(std::memory_order_relaxed) + 1;
  header->copied.store(next_fill, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memset(static_cast<void*>(header + 1), 0, kChunkSize - sizeof *header);
  header->began = anchor_now();
  header->fill.store(next_fill, std::memory_order_release);
  return 0;
}

/// Copies the command line of this process, its words separated by spaces.
void copy_command(char (&out)[512]) noexcept {
  const int file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0));
  if (file < 0) return;
  const long length = ::syscall(SYS_read, file, out, sizeof out - 1);
  ::syscall(SYS_close, file);
  for (long at = 0; at + 1 < length; ++at)
    if (out[at] == '\0') out[at] = ' ';
}

void fill(PartHeader& header, const RecordedDevices& devices, bool of_nvml) noexcept {
  header.version = kPartVersion;
  header.pid = ::getpid();
  header.parent = ::getppid();
  header.counts_nanoseconds = counts_nanoseconds ? 1 : 0;
  header.is_of_nvml = of_nvml ? 1 : 0;
  header.began = anchor_now();
  header.next.store(kChunkSize);
  header.account_count = devices.count;
  for (std::uint32_t account = 0; account < devices.count; ++account)
    std::copy(devices.uuids[account].begin(), devices.uuids[account].end(), header.devices[account]);
  copy_command(header.command);
  const char* tool = ::getenv(kNvtxVariable);
  const char* name = tool != nullptr ? std::strrchr(tool, '/') : nullptr;
  header.has_other_nvtx =
      tool != nullptr && *tool != '\0' && (name == nullptr || std::strcmp(name + 1, kNvtxLibrary) != 0);
  std::memcpy(header.magic, kPartMagic, sizeof header.magic);
}

/// Makes the file of this process. The header gets the space of a whole chunk, so that every chunk begins at an offset
/// that can be mapped.
bool make_file(const RecordedDevices& devices, bool of_nvml) noexcept {
  const int length =
      std::snprintf(part.path, sizeof part.path, "%s/%d-%llx%s%s", environment().record, ::getpid(),
                    static_cast<unsigned long long>(clock_ns(CLOCK_MONOTONIC)), of_nvml ? "-nvml" : "", kPartEnding);
  if (length <= 0 || static_cast<std::size_t>(length) >= sizeof part.path) return false;
  const OpenFile file(part.path, O_CREAT | O_EXCL);
  if (!file.is_open()) return false;
  int error = file.reserve(0, kChunkSize);
  auto* header = error == 0 ? static_cast<PartHeader*>(file.map(0, kPartHeaderSize)) : nullptr;
  if (header == nullptr) {
    if (error == 0) error = errno;
    ::unlink(part.path);
    errno = error;
    return false;
  }
  header->space.store(kChunkSize);
  fill(*header, devices, of_nvml);
  part.header = header;
  return true;
}

/// Maps the file in which all processes without a part of their own count the events that they lose.
void use_common_count(int error) noexcept {
  char path[PATH_MAX];
  const int length = std::snprintf(path, sizeof path, "%s/%s", environment().record, kLostFile);
  if (length <= 0 || static_cast<std::size_t>(length) >= sizeof path) return;
  const OpenFile file(path, 0);
  part.header = file.is_open() ? static_cast<PartHeader*>(file.map(0, kPartHeaderSize)) : nullptr;
  if (part.header != nullptr) part.header->reason.store(static_cast<std::uint32_t>(error));
}

}  // namespace

int make_part(const RecordedDevices& devices, bool of_nvml) noexcept {
  part.has_file = make_file(devices, of_nvml);
  if (part.has_file) return 0;
  const int error = errno;
  use_common_count(error);
  return error;
}

char* empty_home(char* home, int& error) noexcept {
  const OpenFile file(part.path, 0);
  error = file.is_open() ? 0 : errno;
  if (error != 0) return home;
  if (home == nullptr) return take_home(file, error);
  error = append_copy(file, home);
  return home;
}

}  // namespace ration::guard
