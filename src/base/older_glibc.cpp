// Functions that glibc 2.17 lacks and that Debian's static archives (libevent, SQLite, libsodium) expect from Debian's
// C library. Only `./dev package` links them. Each does what its manual page describes.
#include <fcntl.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "base/system_calls.hpp"

extern "C" {

ssize_t getrandom(void* out, std::size_t size, unsigned int flags) {  // glibc 2.25
  return ::syscall(SYS_getrandom, out, size, flags);
}

void arc4random_buf(void* out, std::size_t size) {  // glibc 2.36
  for (auto* at = static_cast<unsigned char*>(out); size > 0;) {
    const ssize_t taken = getrandom(at, size, 0);
    if (taken < 0 && errno != EINTR) std::abort();  // as in glibc: the function cannot report an error
    if (taken < 0) continue;
    at += taken;
    size -= static_cast<std::size_t>(taken);
  }
}

std::uint32_t arc4random() {  // glibc 2.36
  std::uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

void __explicit_bzero_chk(void* out, std::size_t size, std::size_t room) {  // glibc 2.25
  if (room < size) std::abort();
  std::memset(out, 0, size);
  asm volatile("" : : "r"(out) : "memory");  // keeps the compiler from removing the memset
}

int fcntl64(int descriptor, int command, ...) {  // glibc 2.28; file offsets have 64 bits here anyway
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return ::fcntl(descriptor, command, argument);
}

}  // extern "C"
