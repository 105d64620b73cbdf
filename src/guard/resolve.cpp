#include "guard/resolve.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "guard/unlisted.hpp"
#include "guard/unlisted_count.h"

extern "C" {
[[gnu::visibility("hidden")]] extern void* ration_slots[];
[[gnu::visibility("hidden")]] extern void* const ration_own_entries[];
}

namespace ration::guard {
namespace {

// The result of wrapped_library(); null before the first search. The library is never closed, because the CUDA runtime
// calls it from atexit handlers.
std::atomic<void*> library{nullptr};
char no_library;

/// Returns true if the handle is this guard's own, for example because a container mounted the guard in place of the
/// driver. A guard that took itself for the driver would call itself for ever.
bool is_this_library(void* handle) noexcept {
  Dl_info info;
  void* own = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(&is_this_library), &info, &own, RTLD_DL_LINKMAP) != 0 && own == handle)
    return true;
  for (std::size_t i = 0; i < kWrapped.count; ++i) {
    void* first = ::dlsym(handle, kWrapped.names[i]);
    if (first != nullptr) return first == ration_own_entries[i];
  }
  return false;
}

}  // namespace

void* open_first(bool (*look)(driver::Take* take, void* context) noexcept) noexcept {
  struct Found {
    bool wrapped;
    void* handle;
  } found{look == kWrapped.look, nullptr};
  look(
      [](void* out, const char* path) noexcept {
        auto& first = *static_cast<Found*>(out);
        void* handle = open_real_library(path);  // null if it is for another architecture, or incomplete
        if (handle == nullptr) return false;
        // If the audit library redirected a request for this path to this guard, the linker knows the guard by that
        // path as well. So the file is opened by another spelling of the path.
        char other[PATH_MAX];
        if (first.wrapped && handle != nullptr && is_this_library(handle) && std::strlen(path) + 2 <= sizeof other) {
          ::dlclose(handle);
          other[0] = '/';
          std::strcpy(other + 1, path);
          handle = path[0] == '/' ? open_real_library(other) : nullptr;
          if (handle == nullptr) return false;
        }
        if (first.wrapped && (is_this_library(handle) || driver::is_stub_driver(handle))) {
          ::dlclose(handle);
          return false;
        }
        first.handle = handle;
        return true;
      },
      &found);
  return found.handle;
}

void* wrapped_library() noexcept {
  void* found = library.load(std::memory_order_acquire);
  if (found == nullptr) [[unlikely]] {
    const int saved = errno;
    found = open_first(kWrapped.look);
    library.store(found != nullptr ? found : &no_library, std::memory_order_release);
    errno = saved;
  }
  return found == &no_library ? nullptr : found;
}

void* wrapped_address(std::uint32_t index) noexcept {
  void* handle = wrapped_library();
  return handle != nullptr && index < kWrapped.count ? ::dlsym(handle, kWrapped.names[index]) : nullptr;
}

}  // namespace ration::guard

/// Fills slot `index` and returns its new content. Called by resolve_and_go.S.
extern "C" [[gnu::visibility("hidden")]] void* ration_resolve(std::uint32_t index) noexcept {
  using namespace ration::guard;
  if (index >= RATION_UNLISTED_FIRST) return first_call_of_unlisted(index - RATION_UNLISTED_FIRST);
  void* target = wrapped_address(index);
  if (target == nullptr) target = kWrapped.stand_in(index, wrapped_library() != nullptr);
  __atomic_store_n(&ration_slots[index], target, __ATOMIC_RELEASE);
  return target;
}
