// The choice of the dlsym calls that libc must not answer. Such a call asks this guard's handle for a function of the
// driver or NVML that no table lists, or that the installed library lacks. A program gets the guard's handle under the
// driver's name and concludes from the names there what the driver can do, so the handle must give exactly the names
// that the driver exports. Every other call passes through unchanged. Called by symbol_entry.S.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "guard/resolve.hpp"
#include "guard/unlisted.hpp"

namespace {

using SymbolFunction = void*(void*, const char*);

void* no_dlsym(void*, const char*) noexcept { return nullptr; }

#if defined(__x86_64__)
constexpr const char* kFirstVersion = "GLIBC_2.2.5";
#else
constexpr const char* kFirstVersion = "GLIBC_2.17";
#endif

}  // namespace

extern "C" {
[[gnu::visibility("hidden")]] SymbolFunction* ration_next_dlsym = nullptr;
}

namespace ration::guard {
namespace {

/// Returns the next dlsym: the other guard's, another library's or libc's. dlvsym() finds libc's dlsym, and libc's
/// dlsym finds the next one.
SymbolFunction* next_dlsym() noexcept {
  SymbolFunction* next = __atomic_load_n(&ration_next_dlsym, __ATOMIC_ACQUIRE);
  if (next == nullptr) {
    auto* of_libc = reinterpret_cast<SymbolFunction*>(::dlvsym(RTLD_NEXT, "dlsym", kFirstVersion));
    if (of_libc != nullptr) next = reinterpret_cast<SymbolFunction*>(of_libc(RTLD_NEXT, "dlsym"));
    if (next == nullptr) next = of_libc != nullptr ? of_libc : &no_dlsym;
    __atomic_store_n(&ration_next_dlsym, next, __ATOMIC_RELEASE);
  }
  return next;
}

const void* own_handle() noexcept {
  static std::atomic<const void*> known{nullptr};
  const void* handle = known.load(std::memory_order_acquire);
  if (handle == nullptr) {
    Dl_info info;
    void* object = nullptr;
    if (::dladdr1(reinterpret_cast<void*>(&own_handle), &info, &object, RTLD_DL_LINKMAP) != 0) handle = object;
    known.store(handle, std::memory_order_release);
  }
  return handle;
}

bool is_listed(const char* name) noexcept {
  for (std::size_t i = 0; i < kWrapped.count; ++i) {
    if (std::strcmp(kWrapped.names[i], name) == 0) return true;
  }
  return false;
}

/// The answer for which the caller gets null; see routed_entry.h.
void* const kNotThere = reinterpret_cast<void*>(~std::uintptr_t{0});

bool is_function(const void* address) noexcept {
  Dl_info info;
  void* found = nullptr;
  if (::dladdr1(address, &info, &found, RTLD_DL_SYMENT) == 0 || found == nullptr) return false;
  return ELF64_ST_TYPE(static_cast<const ElfW(Sym)*>(found)->st_info) == STT_FUNC;
}

}  // namespace
}  // namespace ration::guard

extern "C" [[gnu::visibility("hidden")]] void* ration_route_dlsym(void* handle, const char* name) noexcept {
  using namespace ration::guard;
  SymbolFunction* next = next_dlsym();
  if (name == nullptr || handle == RTLD_DEFAULT || handle != own_handle() ||
      std::strncmp(name, kWrapped.prefix, std::strlen(kWrapped.prefix)) != 0)
    return nullptr;
  void* library = wrapped_library();
  if (library == nullptr) return nullptr;
  void* found = next(library, name);  // if there is none, dlerror() reports it
  if (found == nullptr) return kNotThere;
  if (is_listed(name)) return nullptr;  // libc finds this guard's own function
  return is_function(found) ? entry_of_unlisted(name, found) : found;
}
