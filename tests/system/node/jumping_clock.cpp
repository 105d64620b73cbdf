// The time of day as a test sets it, for programs that are started with this library (LD_PRELOAD): the real one and the
// seconds that stand, as 8 bytes, in the file JUMPING_CLOCK. Other clocks go on as they are.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

long long ahead() {
  static const volatile long long* const seconds = [] {
    const char* path = std::getenv("JUMPING_CLOCK");
    const int file = path != nullptr ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* place = file >= 0 ? ::mmap(nullptr, sizeof(long long), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (file >= 0) ::close(file);
    return place != MAP_FAILED ? static_cast<long long*>(place) : nullptr;
  }();
  return seconds != nullptr ? *seconds : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += ahead();
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *out = {now.tv_sec, now.tv_nsec / 1000};
  return result;
}
}
