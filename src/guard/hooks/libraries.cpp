// Libraries: loaded code that belongs to no context. If CUDA_MODULE_LOADING is set to EAGER, the driver loads a library
// into all contexts at the time of the call, and into later contexts when they are made. Otherwise the driver loads the
// library into a context when one of its kernels or variables is first needed there, which may happen at a mere launch
// (driver API, cuLibraryLoadData). So a library is charged as with EAGER: in every context that exists when the library
// is loaded, and in every context that is made while the library is loaded.
#include <pthread.h>

#include <algorithm>
#include <new>

#include "driver/cuda_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/code.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct Library {
  std::uint64_t bytes[kMaxDevices];  // the bytes for each device ordinal
};
Table<Library> libraries;  // the key is the handle

/// The lock that a thread holds alone to load a library, and shares with other threads to make a context. So a library
/// and a context that two threads make at the same moment are always charged for each other.
struct Lock {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
};
Lock lock;
thread_local bool locked;  // true if this thread has the lock, even in its calls from inside the driver (CUPTI)

void lock_alone() noexcept { ::pthread_rwlock_wrlock(&lock.lock); }
void lock_shared() noexcept { ::pthread_rwlock_rdlock(&lock.lock); }
void unlock() noexcept { ::pthread_rwlock_unlock(&lock.lock); }
void nothing() noexcept {}

/// A scope that holds the lock, except while its thread sleeps for memory. Contexts that are made during the sleep have
/// higher numbers than the contexts that a load has visited, so the load still visits them.
class LibraryLock : LeftWhileAsleep {
 public:
  LibraryLock() noexcept : LibraryLock(locked) {}
  ~LibraryLock() {
    locked = nested_;
    if (!nested_) unlock();
  }

 private:
  explicit LibraryLock(bool nested) noexcept
      : LeftWhileAsleep(nested ? nothing : unlock, nested ? nothing : lock_alone), nested_(nested) {
    if (!nested_) lock_alone();
    locked = true;
  }

  bool nested_;
};

/// Computes the size of a library on each device of this process. Returns false if the image gives no reliable size.
template <typename ImageOf>
bool sizes_on_devices(ImageOf&& image_of, Library& out) noexcept {
  int devices = 0;
  if (real<cuDeviceGetCount_t>(Symbol::cuDeviceGetCount)(&devices) != CUDA_SUCCESS) return true;
  driver::Capability before = 0;
  driver::CodeImage image;
  for (CUdevice device = 0; device < std::min(devices, kMaxDevices); ++device) {
    const driver::Capability capability = capability_of(device);
    if (device == 0 || capability != before) image = image_of(capability);
    if (image.telling == driver::Telling::kBroken) return false;
    out.bytes[device] = image.size.count();
    before = capability;
  }
  return true;
}

/// Visits the contexts of this process in the order of their numbers up to `last`, until `visit` returns false. Returns
/// the number of the last context visited.
template <typename Visit>
std::uint64_t visit_contexts(std::uint64_t last, Visit&& visit) noexcept {
  LivingContext context;
  while (next_context(context.number, context) && context.number <= last) {
    if (!visit(context)) break;
  }
  return context.number;
}

Place place_in(const LivingContext& context) noexcept {
  Place place;
  place.context = context.number;
  place.account = context.account;
  return place;
}

Bytes size_on(const Library& library, CUdevice device) noexcept {
  return Bytes{device >= 0 && device < kMaxDevices ? library.bytes[device] : 0};
}

void refund_in_contexts(const Library& library, std::uint64_t last) noexcept {
  visit_contexts(last, [&](const LivingContext& context) {
    refund_code(context.number, size_on(library, context.device));
    return true;
  });
}

/// Charges the library in every context, or in none.
bool charge_in_contexts(const Library& library, const char* function) noexcept {
  bool fits = true;
  std::uint64_t charged = 0;
  visit_contexts(kAllContexts, [&](const LivingContext& context) {
    fits = charge_code(place_in(context), size_on(library, context.device), function);
    if (!fits) return false;
    if (!context_lives(context.number)) code_of_context_is_gone(context.number);
    charged = context.number;
    return true;
  });
  if (!fits) refund_in_contexts(library, charged);
  return fits;
}

/// The charge for a library that is loaded while the current context is not entered yet, for example when CUPTI calls
/// back while the context is being made.
struct Nameless {
  Place place;
  CUdevice device = -1;  // -1 if the current context is known or absent
};

Nameless nameless_context(const Place& current) noexcept {
  Nameless result{current};
  if (current.context <= last_context() ||
      real<cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&result.device) != CUDA_SUCCESS)
    result.device = -1;
  return result;
}

template <typename ImageOf, typename Call>
CUresult load(ImageOf&& image_of, const char* function, CUlibrary* out, Call&& call) noexcept {
  const Place current = current_place();  // may enter a context that no hook saw, so it comes before the lock
  const Nameless nameless = nameless_context(current);
  const LibraryLock alone;
  Library library{};
  if (!sizes_on_devices(image_of, library)) return CUDA_ERROR_INVALID_IMAGE;
  Bytes largest;
  for (const std::uint64_t bytes : library.bytes) largest = std::max(largest, Bytes{bytes});
  if (largest == Bytes{0}) return call();
  const Bytes unnamed = size_on(library, nameless.device);
  const CUresult result = while_device_is_full(current.account, function, [&](Bytes& refused) {
    if (!charge_code(nameless.place, unnamed, function)) return CUDA_ERROR_OUT_OF_MEMORY;
    const bool fits = charge_in_contexts(library, function);
    const CUresult loaded = fits ? call() : CUDA_ERROR_OUT_OF_MEMORY;
    if (loaded == CUDA_SUCCESS) return loaded;
    if (fits) refund_in_contexts(library, kAllContexts);
    refund_code(nameless.place.context, unnamed);
    if (fits && loaded == CUDA_ERROR_OUT_OF_MEMORY && current.account != kNoAccount) refused = largest;
    return loaded;
  });
  Library stale{};
  if (result == CUDA_SUCCESS && libraries.replace(reinterpret_cast<std::uint64_t>(*out), library, stale))
    refund_in_contexts(stale, kAllContexts);
  return result;
}

}  // namespace

CodeOfNewContext::CodeOfNewContext() noexcept : CodeOfNewContext(locked) {}
CodeOfNewContext::CodeOfNewContext(bool nested) noexcept
    : LeftWhileAsleep(nested ? nothing : unlock, nested ? nothing : lock_shared), nested_(nested) {
  if (!nested_) lock_shared();
  locked = true;
}
CodeOfNewContext::~CodeOfNewContext() {
  locked = nested_;
  if (!nested_) unlock();
}

Bytes CodeOfNewContext::size(CUdevice device) const noexcept {
  Bytes total;
  libraries.each([&](std::uint64_t, const Library& library) { total += size_on(library, device); });
  return total;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  libraries.abandon();
  ::new (&lock) Lock;
  locked = false;
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

#define RATION_LOAD(name, source, image_of, parameters, arguments)                        \
  RATION_HOOK CUresult name parameters {                                                  \
    const auto call = [&] { return real<name##_t>(Symbol::name) arguments; };             \
    if (!governed() || out == nullptr || source == nullptr) return call();                \
    return load([&](auto device) { return image_of(source, device); }, #name, out, call); \
  }
RATION_LOAD(cuLibraryLoadData, image, image_in_memory,
            (CUlibrary * out, const void* image, int* jit, void** jit_values, unsigned int jit_count, int* options,
             void** values, unsigned int count),
            (out, image, jit, jit_values, jit_count, options, values, count))
RATION_LOAD(cuLibraryLoadFromFile, path, image_in_file,
            (CUlibrary * out, const char* path, int* jit, void** jit_values, unsigned int jit_count, int* options,
             void** values, unsigned int count),
            (out, path, jit, jit_values, jit_count, options, values, count))
#undef RATION_LOAD

RATION_HOOK CUresult cuLibraryUnload(CUlibrary handle) {
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  auto* const call_real = real<cuLibraryUnload_t>(Symbol::cuLibraryUnload);
  if (!governed()) return call_real(handle);
  const LibraryLock alone;
  Library library{};
  if (!libraries.take(key, library)) return call_real(handle);
  const CUresult result = call_real(handle);
  if (result == CUDA_SUCCESS)
    refund_in_contexts(library, kAllContexts);
  else
    libraries.insert(key, library);
  return result;
}
