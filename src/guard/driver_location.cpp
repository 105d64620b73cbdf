#include "guard/driver_location.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "guard/environment.hpp"

namespace ration::guard {
namespace {

/// The first request for the driver: the caller, and the path that the caller asked for.
struct Request {
  char path[PATH_MAX];  // empty if the driver was requested by its name
  const void* caller;
};
Request first;
enum State : int { kNobody, kBeingWritten, kNoted };
std::atomic<int> state{kNobody};

/// Returns true if `path` is the guard's own library `file`, which a container may have mounted in place of the driver.
bool is_own_file(const char* path, const char* file) noexcept {
  struct stat candidate {};
  struct stat own {};
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&is_own_file), &info) == 0 || info.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const int folder = slash != nullptr ? static_cast<int>(slash + 1 - info.dli_fname) : 0;
  char beside[PATH_MAX];
  if (std::snprintf(beside, sizeof beside, "%.*s%s", folder, info.dli_fname, file) >= PATH_MAX) return false;
  return ::stat(path, &candidate) == 0 && ::stat(beside, &own) == 0 && own.st_dev == candidate.st_dev &&
         own.st_ino == candidate.st_ino;
}

bool look(const char* file, driver::Take* take, void* context) noexcept {
  driver::Seeker seeker;
  seeker.only = environment().driver_path;
  seeker.library_path = environment().library_path;
  driver::read_program(seeker.program);
  const bool noted = state.load(std::memory_order_acquire) == kNoted && file == driver::kDriverFile;
  if (noted) seeker.asked = first.path;
  if (!driver::read_object(noted ? nullptr : file, noted ? first.caller : nullptr, seeker.object))
    seeker.object = seeker.program;
  struct Filter {
    const char* file;
    driver::Take* take;
    void* context;
  } filter{file, take, context};
  return driver::look_for(
      file, seeker,
      [](void* of, const char* path) noexcept {
        const auto& own = *static_cast<Filter*>(of);
        return !is_own_file(path, own.file) && !driver::is_stub(path) && own.take(own.context, path);
      },
      &filter);
}

}  // namespace

bool look_for_driver(driver::Take* take, void* context) noexcept { return look(driver::kDriverFile, take, context); }
bool look_for_nvml(driver::Take* take, void* context) noexcept { return look(driver::kNvmlFile, take, context); }

void note_request(const char* path, const void* caller) noexcept {
  if (state.load(std::memory_order_relaxed) != kNobody) return;
  const int saved = errno;
  driver::SearchPaths linked;
  int expected = kNobody;
  char real[PATH_MAX] = "";
  const bool usable = path == nullptr || (::realpath(path, real) != nullptr && !driver::is_stub(real) &&
                                          !is_own_file(real, driver::kDriverFile));
  if (usable && !driver::read_object(driver::kDriverFile, nullptr, linked) &&
      state.compare_exchange_strong(expected, kBeingWritten, std::memory_order_acq_rel)) {
    std::memcpy(first.path, real, sizeof real);
    first.caller = caller;
    state.store(kNoted, std::memory_order_release);
  }
  errno = saved;
}

}  // namespace ration::guard
