// Pinned host memory, which the driver allocates or the program registers, mapped files included. The book counts its
// pages in the account of the host, from the call that pins them until they are freed or unregistered, or until the
// context in which they were pinned ends. Pools and physical memory on the host are charged by the code for pools and
// physical memory on devices.
#include <unistd.h>

#include <atomic>

#include "driver/cuda_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"
#include "guard/hooks/written.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct Pinned {
  Bytes counted;
  std::uint64_t context = 0;
};
Table<Pinned> pinned;  // the key is the address

/// Returns the size of a page. Asks the system only once.
Bytes page() noexcept {
  static std::atomic<std::uint64_t> size{0};
  if (const std::uint64_t known = size.load(std::memory_order_relaxed); known != 0) return Bytes{known};
  size.store(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)), std::memory_order_relaxed);
  return Bytes{size.load(std::memory_order_relaxed)};
}

/// Returns true if the driver has pinned memory at that address.
bool is_pinned(std::uint64_t address) noexcept {
  unsigned flags = 0;
  return real<cuMemHostGetFlags_t>(Symbol::cuMemHostGetFlags)(&flags, reinterpret_cast<void*>(address)) == CUDA_SUCCESS;
}

/// Refunds memory whose context another thread ended while this thread pinned the memory.
[[gnu::noinline]] void follow_context(std::uint64_t address, const Place& place) noexcept {
  Pinned gone;
  if (!context_lives(place.context) && !is_pinned(address) && pinned.take(address, gone))
    give_back(kHostAccount, gone.counted);
}

/// Admits `size` bytes that did not fit at once. If there is no limit, or if `is_wrong()` returns true (the driver will
/// reject the call, so the call takes no memory), admits the call without a charge and sets `size` to 0.
template <typename IsWrong>
[[gnu::noinline]] bool admit_pinned_slowly(Bytes& size, const char* function, IsWrong&& is_wrong) noexcept {
  if (book().account(kHostAccount).limits().binding() < kUnlimited && !is_wrong())
    return admit(kHostAccount, size, Kind::kHeap, function);
  size = Bytes{0};
  return true;
}

/// Pins `size` bytes by `call(address)`, which sets the address.
template <typename Event, typename Call, typename IsWrong>
CUresult pin_as(Bytes size, std::size_t requested, const char* function, Call&& call, IsWrong&& is_wrong) noexcept {
  const Place place = current_place();
  std::uint64_t address = 0;
  if (size == Bytes{0} || place.context == 0) return call(address);  // the driver reports the error
  Event event(trace::Kind::kAllocate, requested);
  if (!admit_quietly(kHostAccount, size, Kind::kHeap) && !admit_pinned_slowly(size, function, is_wrong)) [[unlikely]]
    return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call(address);
  event.failed(result, kHostAccount);
  if (result != CUDA_SUCCESS) {
    take_back(kHostAccount, size);
    return result;
  }
  event.done(address, kHostAccount);
  Pinned stale;  // the former memory at this address; another thread is destroying its context
  if (pinned.replace(address, {size, place.context}, stale)) give_back(kHostAccount, stale.counted);
  if (contexts_changed_since(place)) [[unlikely]]
    follow_context(address, place);
  return result;
}

template <typename Call, typename IsWrong>
CUresult pin(Bytes size, std::size_t requested, const char* function, Call&& call, IsWrong&& is_wrong) noexcept {
  return recorded_or_not(
      [&]<typename Event>() noexcept { return pin_as<Event>(size, requested, function, call, is_wrong); });
}

template <typename Size, typename Call>
CUresult take(void** out, Size size, const char* function, Call&& call) noexcept {
  if (!counts_host() || out == nullptr) return call(out);
  Written<void*> written;
  const auto take_it = [&](std::uint64_t& address) {
    const CUresult result = call(written.place());
    if (result == CUDA_SUCCESS) address = reinterpret_cast<std::uint64_t>(written.value());
    return result;
  };
  const CUresult result = pin(round_up(Bytes{size}, page()), size, function, take_it, [] { return false; });
  written.hand_on(out);
  return result;
}

/// Returns the bytes of the pages in which the range lies.
Bytes pages_of(std::uint64_t address, std::size_t size) noexcept {
  if (size == 0) return {};
  std::uint64_t end = 0;
  if (__builtin_add_overflow(address % page().count(), size, &end)) end = kUnlimited.count();
  return round_up(Bytes{end}, page());
}

CUresult enter(Symbol symbol, void* start, std::size_t size, unsigned flags) noexcept {
  auto* call_real = real<cuMemHostRegister_v2_t>(symbol);
  // The flags do not matter: even with CU_MEMHOSTREGISTER_IOMEMORY a program may register host memory.
  if (!counts_host()) return call_real(start, size, flags);
  const auto key = reinterpret_cast<std::uint64_t>(start);
  const auto register_it = [&](std::uint64_t& address) {
    address = key;
    return call_real(start, size, flags);
  };
  return pin(pages_of(key, size), size, "cuMemHostRegister", register_it, [&] { return key == 0 || is_pinned(key); });
}

/// Removes the entry and then frees the memory by `call()`. The order matters: once the driver has freed the memory,
/// another thread may receive the same address.
template <typename Call>
CUresult unpin(void* start, Call&& call) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(start);
  Pinned known;
  if (!counts_host() || !pinned.take(address, known)) return call();
  return recorded_or_not([&]<typename Event>() noexcept {
    Event event(trace::Kind::kFree, known.counted.count());
    const CUresult result = call();
    event.failed(result, kHostAccount);
    if (result == CUDA_SUCCESS) {
      event.done(address, kHostAccount);
      give_back(kHostAccount, known.counted);
    } else {
      pinned.insert(address, known);
    }
    return result;
  });
}

}  // namespace

void pinned_of_context_is_gone(std::uint64_t context, std::uint64_t now) noexcept {
  pinned.remove_if([&](std::uint64_t address, Pinned& memory) {
    if (memory.context != context) return false;
    if (is_pinned(address)) {
      memory.context = now;
      return false;
    }
    Recorded event(trace::Kind::kFree, memory.counted.count());
    event.done(address, kHostAccount);
    give_back(kHostAccount, memory.counted);
    return true;
  });
}

void renumber_pinned(std::uint64_t handle, std::uint64_t number) noexcept {
  pinned.each([&](std::uint64_t, Pinned& memory) {
    if (memory.context == handle) memory.context = number;
  });
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { pinned.abandon(); });

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

RATION_HOOK CUresult cuMemHostAlloc(void** out, std::size_t size, unsigned int flags) {
  auto* call_real = real<cuMemHostAlloc_t>(Symbol::cuMemHostAlloc);
  return take(out, size, "cuMemHostAlloc", [&](void** place) { return call_real(place, size, flags); });
}
RATION_HOOK CUresult cuMemAllocHost_v2(void** out, std::size_t size) {
  auto* call_real = real<cuMemAllocHost_v2_t>(Symbol::cuMemAllocHost_v2);
  return take(out, size, "cuMemAllocHost", [&](void** place) { return call_real(place, size); });
}
RATION_HOOK CUresult cuMemAllocHost(void** out, unsigned int size) {
  auto* call_real = real<cuMemAllocHost_t>(Symbol::cuMemAllocHost);
  return take(out, size, "cuMemAllocHost", [&](void** place) { return call_real(place, size); });
}
RATION_HOOK CUresult cuMemFreeHost(void* address) {
  return unpin(address, [&] { return real<cuMemFreeHost_t>(Symbol::cuMemFreeHost)(address); });
}
RATION_HOOK CUresult cuMemHostRegister_v2(void* address, std::size_t size, unsigned int flags) {
  return enter(Symbol::cuMemHostRegister_v2, address, size, flags);
}
RATION_HOOK CUresult cuMemHostRegister(void* address, std::size_t size, unsigned int flags) {
  return enter(Symbol::cuMemHostRegister, address, size, flags);
}
RATION_HOOK CUresult cuMemHostUnregister(void* address) {
  return unpin(address, [&] { return real<cuMemHostUnregister_t>(Symbol::cuMemHostUnregister)(address); });
}
