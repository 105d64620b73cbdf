// Contexts. The overhead of a context is charged, since it takes device memory. When a context is destroyed or a
// primary context is reset, everything that lived in it is refunded.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <new>
#include <utility>

#include "driver/cuda_copy_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/code.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/graphs.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/measure.hpp"
#include "guard/hooks/table.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct Context {
  std::uint64_t number = 0;
  std::uint64_t overhead = 0;
  std::uint64_t set_aside[3] = {};  // the bytes charged for each of kKernelLimits beyond its default
  std::uint32_t account = kNoAccount;
  std::uint32_t attached = 0;  // references from cuCtxAttach(), beyond the first
  CUdevice device = -1;
  bool primary = false;
};

Table<Context> contexts;
std::atomic<std::uint64_t> last_number{0};

/// The primary context of a device. Each device has a lock, held while its primary context is looked up, made or ended,
/// so that a slow call on one device delays no other.
struct Primary {
  // The lock is recursive, because the driver may call the program back while it makes a context (CUPTI).
  pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  CUcontext handle = nullptr;
  bool changing = false;
};
Primary primaries[kMaxDevices];

class PrimaryGuard {
 public:
  explicit PrimaryGuard(Primary& primary) noexcept : primary_(primary) {
    ::pthread_mutex_lock(&primary.lock);
    nested_ = std::exchange(primary.changing, true);
  }
  ~PrimaryGuard() {
    primary_.changing = nested_;
    ::pthread_mutex_unlock(&primary_.lock);
  }
  PrimaryGuard(const PrimaryGuard&) = delete;
  PrimaryGuard& operator=(const PrimaryGuard&) = delete;
  /// Returns true if an outer call of this thread holds the lock already; then the outer call enters the context.
  [[nodiscard]] bool nested() const noexcept { return nested_; }

 private:
  Primary& primary_;
  bool nested_;
};

/// Returns the primary context of the device, or null if no device has that ordinal; the driver then reports the error.
Primary* primary_of(CUdevice device) noexcept {
  return device >= 0 && device < kMaxDevices ? &primaries[device] : nullptr;
}

bool counts_contexts() noexcept { return book().settings().account_mode == book::AccountMode::kDevice; }

void context_is_gone(const Context& context) noexcept;

void remember(std::uint64_t number, CUcontext handle, Bytes overhead, std::uint32_t account, CUdevice device,
              bool primary) noexcept {
  Context context, stale;
  context.number = number;
  context.overhead = overhead.count();
  context.account = account;
  context.device = device;
  context.primary = primary;
  // If the handle has an entry, the driver has reused the handle: the former context ended in a way that no hook saw.
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  if (contexts.replace(key, context, stale)) context_is_gone(stale);
  forget_places();
  renumber_blocks(key, context.number);
  renumber_pinned(key, context.number);
  adopt_modules(key, context.number);
}

std::uint64_t new_number() noexcept { return last_number.fetch_add(1) + 1; }

Place place_of(std::uint64_t number, std::uint32_t account) noexcept {
  Place place;
  place.context = number;
  place.account = account;
  return place;
}

/// Returns the cost of a context as `ration run` measured it, or 0 if this process must measure it. Measuring loads
/// NVML into every process.
Bytes known_cost(CUdevice device) noexcept {
  return book_usable() && counts_contexts() ? book().account(account_of(device)).device().context_estimate : Bytes{0};
}

/// Returns true if the cost of a context on `device` must be measured, and in that case loads NVML. Must be called
/// without a lock, because libraries that are being loaded may use the driver.
bool is_measured(CUdevice device) noexcept {
  const bool measured = known_cost(device) == Bytes{0};
  if (measured) prepare_to_measure();
  return measured;
}

struct NewContext {
  std::uint64_t number;
  std::uint32_t account;
  bool primary;
};

/// Makes a context on `device` by `call`. Enters the known cost beforehand. If the cost is not known, measures it and
/// enters it afterwards; if the cost cannot be measured, enters the usual cost beforehand. `charge_libraries` charges
/// what this process's loaded libraries take in the context. It runs again after an admission that may have slept.
template <typename Libraries, typename Call, typename Undo>
CUresult take_overhead(CUdevice device, const char* function, CUcontext* out, const NewContext& made,
                       Libraries&& charge_libraries, Call&& call, Undo&& undo) noexcept {
  const std::uint32_t account = made.account;
  if (!counts_contexts()) {
    if (!charge_libraries()) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = call();
    if (result == CUDA_SUCCESS) remember(made.number, *out, Bytes{0}, account, device, made.primary);
    return result;
  }
  Bytes estimate = known_cost(device);
  const bool measured = estimate == Bytes{0} && bytes_by_driver(device).known;
  if (estimate == Bytes{0} && !measured) estimate = kUsualContextCost;
  if (estimate > Bytes{0} && !admit(account, estimate, Kind::kContext, function)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!charge_libraries()) {
    give_back(account, estimate, Kind::kContext);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const BytesByDriver before = measured ? bytes_by_driver(device) : BytesByDriver{};
  CUresult result = call();
  if (result != CUDA_SUCCESS) {
    give_back(account, estimate, Kind::kContext);
    return result;
  }
  const Bytes cost = measured ? context_between(before, bytes_by_driver(device)) : estimate;
  const Bytes more = cost - std::min(cost, estimate);
  const bool fits = more == Bytes{0} || admit(account, more, Kind::kContext, function);
  if (!fits || (more > Bytes{0} && !charge_libraries())) {
    undo();
    give_back(account, fits ? estimate + more : estimate, Kind::kContext);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (cost < estimate) give_back(account, estimate - cost, Kind::kContext);
  remember(made.number, *out, cost, account, device, made.primary);
  return result;
}

/// Makes a context like take_overhead(), and also charges the libraries that the context contains.
template <typename Call, typename Undo>
CUresult take_context(CUdevice device, const char* function, CUcontext* out, bool primary, Call&& call,
                      Undo&& undo) noexcept {
  if (!book_usable()) return CUDA_ERROR_OPERATING_SYSTEM;
  const std::uint32_t account = account_of(device);
  if (account == kNoAccount) return deny_context(device, function);
  Recorded event(trace::Kind::kContextMade);
  const CodeOfNewContext code;
  const std::uint64_t number = new_number();
  Bytes charged;
  const auto charge_libraries = [&] {
    for (Bytes size; (size = code.size(device)) != charged; charged = size) {
      if (size < charged)
        refund_code(number, charged - size);
      else if (!charge_code(place_of(number, account), size - charged, function))
        return false;
    }
    return true;
  };
  const CUresult result =
      take_overhead(device, function, out, {number, account, primary}, charge_libraries, call, undo);
  event.failed(result, account);
  if (result == CUDA_SUCCESS)
    event.done(number, account);
  else
    code_of_context_is_gone(number);
  return result;
}

/// Forgets everything that lived in the context. The context itself may live on under the number `now`.
void contents_are_gone(const Context& context, std::uint64_t now = 0) noexcept {
  blocks_of_context_are_gone(context.number, now);
  arrays_of_context_are_gone(context.number);
  modules_of_context_are_gone(context.number);
  managed_of_context_is_gone(context.number, now);
  pinned_of_context_is_gone(context.number, now);
  for (const std::uint64_t bytes : context.set_aside) give_back(context.account, Bytes{bytes});
  refresh_pools();
  refresh_graph_pools();
}

void context_is_gone(const Context& context) noexcept {
  Recorded event(trace::Kind::kContextEnded);
  event.done(context.number, context.account);
  give_back(context.account, Bytes{context.overhead}, Kind::kContext);
  contents_are_gone(context);
}

/// Destroys the context by `call`. The entry stays until the driver has destroyed the context, because other threads
/// still take memory in it. If the handle is reused meanwhile, remember() has already removed the old entry.
template <typename Call>
CUresult end_context(CUcontext handle, Call&& call) noexcept {
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  Context context;
  // The driver does not destroy a primary context: it is only released or reset.
  if (!governed() || !contexts.find(key, context) || context.primary) return call();
  const std::uint64_t number = context.number;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  forget_places();
  bool ended = false;
  contexts.update(key, [&](Context& entry) {
    ended = entry.number == number;
    context = entry;
    return !ended && entry.number != 0;
  });
  if (ended) context_is_gone(context);
  return result;
}

bool primary_is_active(CUdevice device) noexcept {
  unsigned int flags = 0;
  int active = 0;
  return real<cuDevicePrimaryCtxGetState_t>(Symbol::cuDevicePrimaryCtxGetState)(device, &flags, &active) ==
             CUDA_SUCCESS &&
         active != 0;
}

template <typename Call>
CUresult create(CUdevice device, const char* function, CUcontext* out, Call&& call) noexcept {
  Primary* const primary = primary_of(device);
  if (!governed() || out == nullptr || primary == nullptr) return call();
  const auto take = [&] {
    return take_context(device, function, out, false, call,
                        [&] { real<cuCtxDestroy_v2_t>(Symbol::cuCtxDestroy_v2)(*out); });
  };
  if (!is_measured(device)) return take();
  const PrimaryGuard alone(*primary);  // a context that another thread makes meanwhile would be measured too
  return take();
}

/// The limits of a context that cost device memory, with their defaults.
struct KernelLimit {
  CUlimit limit;
  Bytes usual;
};
constexpr KernelLimit kKernelLimits[] = {{CU_LIMIT_STACK_SIZE, Bytes{1 << 10}},
                                         {CU_LIMIT_PRINTF_FIFO_SIZE, Bytes{1 << 20}},
                                         {CU_LIMIT_MALLOC_HEAP_SIZE, Bytes{8 << 20}}};
static_assert(std::size(kKernelLimits) == std::size(Context{}.set_aside));

/// Returns how many threads a device can run at once, or 1 if the driver does not report it.
std::uint64_t resident_threads(CUdevice device) noexcept {
  int processors = 0, threads = 0;
  auto* const ask = real<cuDeviceGetAttribute_t>(Symbol::cuDeviceGetAttribute);
  if (ask(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS ||
      ask(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) != CUDA_SUCCESS)
    return 1;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(processors) * static_cast<std::uint64_t>(threads));
}

enum class Leaving { kRelease, kReset };

/// Releases or resets a primary context by `call`. Everything in the context ends with a reset, and with the last
/// release.
template <typename Call>
CUresult leave_primary(CUdevice device, Leaving how, Call&& call) noexcept {
  Primary* const primary = primary_of(device);
  if (!governed() || primary == nullptr) return call();
  const PrimaryGuard guard(*primary);
  const CUresult result = call();
  if (guard.nested() || result != CUDA_SUCCESS || primary->handle == nullptr) return result;
  const auto key = reinterpret_cast<std::uint64_t>(primary->handle);
  Context context;
  if (!primary_is_active(device)) {
    primary->handle = nullptr;
    forget_places();
    if (contexts.take(key, context)) context_is_gone(context);
  } else if (how == Leaving::kReset) {
    const std::uint64_t now = new_number();
    contexts.update(key, [&](Context& entry) {
      context = entry;
      entry.number = now;
      std::fill(std::begin(entry.set_aside), std::end(entry.set_aside), 0);
      return entry.account != kNoAccount;
    });
    forget_places();
    CUcontext handle = primary->handle;
    const bool asks = real<cuCtxPushCurrent_v2_t>(Symbol::cuCtxPushCurrent_v2)(handle) == CUDA_SUCCESS;
    contents_are_gone(context, asks ? now : 0);
    const CodeOfNewContext code;
    charge_code_unconditionally(place_of(now, context.account), code.size(device));
    if (asks) (void)real<cuCtxPopCurrent_v2_t>(Symbol::cuCtxPopCurrent_v2)(&handle);
  }
  return result;
}

}  // namespace

void enter_unseen_context(CUcontext handle, CUdevice device, std::uint32_t account) noexcept {
  Context context;
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  Primary* const primary = primary_of(device);
  if (primary == nullptr || !governed() || account == kNoAccount || contexts.find(key, context)) return;
  const PrimaryGuard guard(*primary);
  if (guard.nested() || contexts.find(key, context)) return;  // the context is being made, and the outer call enters it
  CUdevice same = -1;                                         // the context may have ended since the query
  if (real<cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&same) != CUDA_SUCCESS || same != device) return;
  const Bytes cost = known_cost(device);
  book().account(account).charge_unconditionally(cost, Kind::kContext);
  const CodeOfNewContext code;
  const std::uint64_t number = new_number();
  charge_code_unconditionally(place_of(number, account), code.size(device));
  remember(number, handle, cost, account, device, false);
}

std::uint64_t context_number(CUcontext handle) noexcept {
  Context context;
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  return contexts.find(key, context)
             ? context.number
             : key;  // the context was made outside these hooks; numbers never reach the values of handles
}

std::uint64_t last_context() noexcept { return last_number.load(); }

bool next_context(std::uint64_t number, LivingContext& out) noexcept {
  LivingContext next;
  contexts.each([&](std::uint64_t handle, const Context& one) {
    if (one.number > number && (next.number == 0 || one.number < next.number))
      next = {one.number, reinterpret_cast<CUcontext>(handle), one.device, one.account};
  });
  if (next.number != 0) out = next;
  return next.number != 0;
}

bool context_lives(std::uint64_t number) noexcept {
  Context context;
  if (number > last_number.load())
    return !contexts.find(number, context);  // the number is a handle from before the context had a number
  bool found = false;
  contexts.each([&](std::uint64_t, const Context& one) { found = found || one.number == number; });
  return found;
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  contexts.abandon();
  for (Primary& primary : primaries) ::new (&primary) Primary;
});

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;
using ration::Bytes;
using ration::kGranule;
using ration::kUnlimited;

RATION_HOOK CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  const auto call = [&] { return real<cuDevicePrimaryCtxRetain_t>(Symbol::cuDevicePrimaryCtxRetain)(out, device); };
  Primary* const primary = primary_of(device);
  if (!governed() || out == nullptr || primary == nullptr) return call();
  (void)is_measured(device);
  const PrimaryGuard guard(*primary);
  if (guard.nested() || primary->handle != nullptr) return call();
  const CUresult result = take_context(device, "cuDevicePrimaryCtxRetain", out, true, call, [&] {
    real<cuDevicePrimaryCtxRelease_v2_t>(Symbol::cuDevicePrimaryCtxRelease_v2)(device);
  });
  if (result == CUDA_SUCCESS) primary->handle = *out;
  return result;
}

#define RATION_LEAVE_PRIMARY(name, how)                                                                            \
  RATION_HOOK CUresult name(CUdevice device) {                                                                     \
    return leave_primary(device, how, [&] { return real<cuDevicePrimaryCtxRelease_v2_t>(Symbol::name)(device); }); \
  }
RATION_LEAVE_PRIMARY(cuDevicePrimaryCtxRelease, Leaving::kRelease)
RATION_LEAVE_PRIMARY(cuDevicePrimaryCtxRelease_v2, Leaving::kRelease)
RATION_LEAVE_PRIMARY(cuDevicePrimaryCtxReset, Leaving::kReset)
RATION_LEAVE_PRIMARY(cuDevicePrimaryCtxReset_v2, Leaving::kReset)
#undef RATION_LEAVE_PRIMARY

RATION_HOOK CUresult cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v2_t>(Symbol::cuCtxCreate)(out, flags, device); });
}
RATION_HOOK CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v2_t>(Symbol::cuCtxCreate_v2)(out, flags, device); });
}
RATION_HOOK CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count, unsigned int flags,
                                    CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v3_t>(Symbol::cuCtxCreate_v3)(out, affinity, count, flags, device); });
}
RATION_HOOK CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned int flags,
                                    CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v4_t>(Symbol::cuCtxCreate_v4)(out, parameters, flags, device); });
}

// Defines a hook that makes a context for a graphics or video interface. Such a context costs as much as any other.
#define RATION_CREATE_FOR_GRAPHICS(name)                                                                         \
  RATION_HOOK CUresult name(CUcontext* out, unsigned int flags, CUdevice device) {                               \
    return create(device, #name, out, [&] { return real<cuCtxCreate_v2_t>(Symbol::name)(out, flags, device); }); \
  }
RATION_CREATE_FOR_GRAPHICS(cuGLCtxCreate)
RATION_CREATE_FOR_GRAPHICS(cuGLCtxCreate_v2)
#undef RATION_CREATE_FOR_GRAPHICS
#define RATION_CREATE_FOR_VIDEO(name)                                                                               \
  RATION_HOOK CUresult name(CUcontext* out, unsigned int flags, CUdevice device, std::uint32_t video, void* find) { \
    using Create = CUresult(CUcontext*, unsigned int, CUdevice, std::uint32_t, void*);                              \
    return create(device, #name, out, [&] { return real<Create>(Symbol::name)(out, flags, device, video, find); }); \
  }
RATION_CREATE_FOR_VIDEO(cuVDPAUCtxCreate)
RATION_CREATE_FOR_VIDEO(cuVDPAUCtxCreate_v2)
#undef RATION_CREATE_FOR_VIDEO

RATION_HOOK CUresult cuCtxDestroy(CUcontext context) {
  return end_context(context, [&] { return real<cuCtxDestroy_v2_t>(Symbol::cuCtxDestroy)(context); });
}
RATION_HOOK CUresult cuCtxDestroy_v2(CUcontext context) {
  return end_context(context, [&] { return real<cuCtxDestroy_v2_t>(Symbol::cuCtxDestroy_v2)(context); });
}

// Charges the memory that a new limit takes beyond the default that every context has (CUDA 4.0 to 13: 8 MiB for
// malloc(), 1 MiB for printf(), 1 KiB of stack for each thread; the context's own cost includes these). The charge
// follows the largest value that the limit was ever set to, in whole granules. The driver takes the memory at the next
// launch that needs it, and keeps it as long as the context lives. It takes stacks for all threads that can be resident
// at once (CUDA C++ programming guide): a stack of 8 KiB costs 800 MB on an RTX 3090 (taichi issue 7906).
RATION_HOOK CUresult cuCtxSetLimit(CUlimit limit, std::size_t value) {
  const auto call = [&] { return real<cuCtxSetLimit_t>(Symbol::cuCtxSetLimit)(limit, value); };
  const auto* const kind =
      std::find_if(std::begin(kKernelLimits), std::end(kKernelLimits), [&](auto one) { return one.limit == limit; });
  if (!governed() || kind == std::end(kKernelLimits)) return call();
  const Place place = current_place();
  CUcontext handle = nullptr;
  Context context;
  if (real<cuCtxGetCurrent_t>(Symbol::cuCtxGetCurrent)(&handle) != CUDA_SUCCESS || handle == nullptr)
    return call();  // the driver reports the error
  const bool known = contexts.find(reinterpret_cast<std::uint64_t>(handle), context);
  const std::uint64_t copies = kind->limit == CU_LIMIT_STACK_SIZE ? resident_threads(context.device) : 1;
  const Bytes wanted = std::min(Bytes{value}, Bytes{kUnlimited.count() / copies});
  const Bytes beyond = wanted > kind->usual ? round_up((wanted - kind->usual) * copies, kGranule) : Bytes{0};
  if (!known) return beyond > Bytes{0} ? CUDA_ERROR_OUT_OF_MEMORY : call();  // this context cannot be charged
  const auto index = static_cast<std::size_t>(kind - std::begin(kKernelLimits));
  const Bytes before{context.set_aside[index]};
  const Bytes growth = beyond > before ? beyond - before : Bytes{0};
  if (growth == Bytes{0}) return call();
  const CUresult result = charged(place.account, growth, Kind::kHeap, "cuCtxSetLimit", call);
  if (result != CUDA_SUCCESS) return result;
  Bytes used;  // another thread may have set the limit or ended the context meanwhile
  contexts.update(reinterpret_cast<std::uint64_t>(handle), [&](Context& entry) {
    const Bytes now{entry.set_aside[index]};
    if (entry.account == kNoAccount) return false;
    used = now < beyond ? std::min(beyond - now, growth) : Bytes{0};
    entry.set_aside[index] += used.count();
    return true;
  });
  give_back(place.account, growth - used, Kind::kHeap);
  return result;
}

RATION_HOOK CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  const CUresult result = real<cuCtxAttach_t>(Symbol::cuCtxAttach)(out, flags);
  if (result != CUDA_SUCCESS || !governed() || out == nullptr) return result;
  contexts.update(reinterpret_cast<std::uint64_t>(*out), [](Context& context) {
    ++context.attached;
    return context.account != kNoAccount;
  });
  return result;
}

// Destroys a context that cuCtxCreate() made, if this is its last detach.
RATION_HOOK CUresult cuCtxDetach(CUcontext context) {
  const auto call = [&] { return real<cuCtxDestroy_v2_t>(Symbol::cuCtxDetach)(context); };
  if (!governed()) return call();
  bool last = false;
  contexts.update(reinterpret_cast<std::uint64_t>(context), [&](Context& entry) {
    last = !entry.primary && entry.attached == 0 && entry.account != kNoAccount;
    if (entry.attached > 0) --entry.attached;
    return entry.account != kNoAccount;
  });
  return last ? end_context(context, call) : call();
}
