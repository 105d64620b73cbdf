#include "base/byte_lock.hpp"

#include <fcntl.h>

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

Mapping keep_open(int file) noexcept {
  void* address = ::mmap(nullptr, 4096, PROT_NONE, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) return {};
  Mapping kept{address, 4096};
  return ::madvise(address, 4096, MADV_DONTFORK) == 0 ? std::move(kept) : Mapping{};
}

}  // namespace ration
