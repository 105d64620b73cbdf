#include "base/byte_lock.hpp"

#include <fcntl.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace ration {
namespace {

struct flock lock_of(std::uint32_t byte, short type) noexcept {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return range;
}

/// Where the bytes begin with which processes try a filesystem, each with the one for its own lock.
constexpr std::uint32_t kFirstTrialByte = 1U << 20;

Mapping map_for_this_process(int file) noexcept {
  constexpr std::size_t kSize = 4096;
  void* address = ::mmap(nullptr, kSize, PROT_NONE, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) return {};
  Mapping kept{address, kSize};
  return ::madvise(address, kSize, MADV_DONTFORK) == 0 ? std::move(kept) : Mapping{};
}

/// The descriptors that keep locks, one for the book and one for the simulated node. 0: none.
std::array<std::atomic<int>, 2> kept_descriptors;

void close_in_child() noexcept {
  for (auto& kept : kept_descriptors) {
    if (const int descriptor = kept.exchange(0); descriptor != 0) ::close(descriptor);
  }
}

/// Duplicates the descriptor to a high number, which programs rarely close by mistake. Returns 0 on failure.
int keep_descriptor(int file) noexcept {
  static std::atomic<bool> registered;
  if (!registered.exchange(true) && ::pthread_atfork(nullptr, nullptr, close_in_child) != 0) return 0;
  int copy = ::fcntl(file, F_DUPFD_CLOEXEC, 1000);
  if (copy < 0) copy = ::fcntl(file, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return 0;
  for (auto& kept : kept_descriptors) {
    int none = 0;
    if (kept.compare_exchange_strong(none, copy)) return copy;
  }
  ::close(copy);
  return 0;
}

void drop_descriptor(int descriptor) noexcept {
  for (auto& kept : kept_descriptors) {
    int own = descriptor;
    if (kept.compare_exchange_strong(own, 0)) ::close(descriptor);
  }
}

}  // namespace

bool lock_byte(int file, std::uint32_t byte) noexcept {
  struct flock lock = lock_of(byte, F_WRLCK);
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

bool share_byte(int file, std::uint32_t byte) noexcept {
  struct flock lock = lock_of(byte, F_RDLCK);
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

void unlock_byte(int file, std::uint32_t byte) noexcept {
  struct flock lock = lock_of(byte, F_UNLCK);
  ::fcntl(file, F_OFD_SETLK, &lock);
}

bool byte_is_locked(int file, std::uint32_t byte) noexcept {
  struct flock lock = lock_of(byte, F_WRLCK);
  return ::fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool mapping_keeps_lock(int file, std::uint32_t byte, FileDescriptor other) noexcept {
  if (!other || !lock_byte(other.get(), byte)) return false;
  const Mapping mapping = map_for_this_process(other.get());
  other = FileDescriptor{};
  return mapping.get() != nullptr && byte_is_locked(file, byte);
}

LockKeeper keep_locked(FileDescriptor file, std::uint32_t byte, FileDescriptor other) noexcept {
  LockKeeper keeper;
  if (mapping_keeps_lock(file.get(), kFirstTrialByte + byte, std::move(other))) {
    keeper.mapping_ = map_for_this_process(file.get());
  } else {
    keeper.descriptor_ = keep_descriptor(file.get());
  }
  return keeper;
}

LockKeeper::~LockKeeper() {
  if (descriptor_ != 0) drop_descriptor(descriptor_);
}

void LockKeeper::forget() noexcept {
  mapping_.release();
  descriptor_ = 0;
}

}  // namespace ration
