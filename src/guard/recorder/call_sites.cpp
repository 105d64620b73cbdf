#include "guard/recorder/call_sites.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstring>

#include "guard/environment.hpp"
#include "guard/recorder/python_calls.hpp"
#include "guard/recorder/recorder.hpp"
#include "guard/resolve.hpp"

namespace ration::guard {
namespace {

/// The functions of libgcc's unwinder. They are found while the guard is loaded, because opening a library later could
/// wait for a thread that itself waits for the guard.
struct Unwinder {
  using Visit = int (*)(void* frame, void* to);
  int (*walk)(Visit, void*) = nullptr;
  std::uintptr_t (*address)(void* frame) = nullptr;  // returns the address at which the frame continues
  std::uintptr_t (*stack)(void* frame) = nullptr;    // returns the frame's stack pointer
  std::uintptr_t own_from = 0, own_to = 0;           // the addresses of this library
};
Unwinder unwinder;

constexpr std::size_t kMostFrames = 48;

/// The calls on a stack, the innermost first.
struct Stack {
  std::size_t count = 0;
  bool has_places = true;  // true if each return address lies just below the stack pointer of its frame
  std::uintptr_t addresses[kMostFrames];
  std::uintptr_t places[kMostFrames];
};

/// A stack that was walked once. If a thread reaches the same stack position again, and the same return addresses are
/// where they were, the thread has the same callers: each return address determines where the next one lies.
struct Seen {
  std::atomic<std::uint32_t> version;  // odd while the entry is written
  std::atomic<std::uint32_t> site, thread, count;
  std::atomic<std::uintptr_t> place;
  std::atomic<std::uintptr_t> addresses[kMostFrames];
  std::atomic<std::uint32_t> offsets[kMostFrames];  // from `place`
};

/// Stacks that end at the same place of the same thread compete for one set.
constexpr std::size_t kSets = 256, kWays = 4;  // the highest eight bits of the hash are the number of the set
Seen seen[kSets][kWays];

Seen (&set_of(std::uintptr_t place, std::uint32_t thread) noexcept)[kWays] {
  return seen[(place + thread) * 0x9e3779b97f4a7c15U >> 56];
}

template <typename Value>
Value get(const std::atomic<Value>& from) noexcept {
  return from.load(std::memory_order_relaxed);
}

bool is_as_seen(const Seen& each, std::uintptr_t place, std::uint32_t thread, std::uint32_t& site) noexcept {
  const std::uint32_t version = each.version.load(std::memory_order_acquire);
  if ((version & 1) != 0 || get(each.place) != place || get(each.thread) != thread) return false;
  const std::size_t count = get(each.count);
  // Compares the innermost address first, and stops at the first address that has changed: the position of the next
  // address is certain to be on the stack only if this one is unchanged.
  for (std::size_t at = 0; at < count; ++at) {
    const auto* word = reinterpret_cast<const volatile std::uintptr_t*>(place + get(each.offsets[at]));
    const std::uintptr_t expected = get(each.addresses[at]);
    if (each.version.load(std::memory_order_acquire) != version || *word != expected) return false;
  }
  site = get(each.site);
  std::atomic_thread_fence(std::memory_order_acquire);
  return get(each.version) == version;
}

void remember(const Stack& stack, std::uintptr_t place, std::uint32_t thread, std::uint32_t site) noexcept {
  static std::atomic<std::uint32_t> next{0};
  Seen& each = set_of(place, thread)[next.fetch_add(1, std::memory_order_relaxed) % kWays];
  std::uint32_t version = get(each.version);
  if ((version & 1) != 0 || !each.version.compare_exchange_strong(version, version + 1)) return;
  each.site.store(site, std::memory_order_relaxed);
  each.thread.store(thread, std::memory_order_relaxed);
  each.count.store(static_cast<std::uint32_t>(stack.count), std::memory_order_relaxed);
  each.place.store(place, std::memory_order_relaxed);
  for (std::size_t at = 0; at < stack.count; ++at) {
    each.addresses[at].store(stack.addresses[at], std::memory_order_relaxed);
    each.offsets[at].store(static_cast<std::uint32_t>(stack.places[at] - place), std::memory_order_relaxed);
  }
  each.version.store(version + 2, std::memory_order_release);
}

int add_frame(void* frame, void* to) noexcept {
  Stack& stack = *static_cast<Stack*>(to);
  const std::uintptr_t address = unwinder.address(frame), place = unwinder.stack(frame) - sizeof address;
  if (address == 0) return 1;
  if (stack.count == 0 && address >= unwinder.own_from && address < unwinder.own_to) return 0;
  stack.addresses[stack.count] = address;
  stack.places[stack.count] = place;
  const bool is_above = stack.count == 0 || place > stack.places[stack.count - 1];
  if (!is_above || place % sizeof address != 0 || *reinterpret_cast<const std::uintptr_t*>(place) != address)
    stack.has_places = false;
  return ++stack.count == kMostFrames ? 1 : 0;
}

// ----------------------------------------------------------------------------------------------------------- modules

/// Calls `visit(from, to)` for each segment of a loaded module.
template <typename Visit>
void each_segment(const dl_phdr_info& module, Visit&& visit) noexcept {
  for (int at = 0; at < module.dlpi_phnum; ++at) {
    const auto& segment = module.dlpi_phdr[at];
    if (segment.p_type == PT_LOAD)
      visit(module.dlpi_addr + segment.p_vaddr, module.dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
}

int find_own(dl_phdr_info* module, std::size_t, void*) noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(&find_own);
  bool is_own = false;
  std::uintptr_t first = ~std::uintptr_t{0}, last = 0;
  each_segment(*module, [&](std::uintptr_t from, std::uintptr_t to) {
    is_own = is_own || (here >= from && here < to);
    first = from < first ? from : first;
    last = to > last ? to : last;
  });
  if (is_own) {
    unwinder.own_from = first;
    unwinder.own_to = last;
  }
  return is_own ? 1 : 0;
}

/// A stack, and the modules in which its addresses lie.
struct Located {
  const Stack& stack;
  StackFrame frames[kMostFrames];
};

std::uint32_t number_of_module(const char* name) noexcept {
  if (*name != '\0') return number_of_text(TextKind::kModule, name, ::strnlen(name, kMaxText));
  char program[PATH_MAX];  // the program has no name in the list
  const long length = ::syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program, sizeof program);
  return length > 0 ? number_of_text(TextKind::kModule, program, static_cast<std::size_t>(length)) : 0;
}

int locate(dl_phdr_info* module, std::size_t, void* to) noexcept {
  auto& located = *static_cast<Located*>(to);
  std::uint32_t number = 0;
  each_segment(*module, [&](std::uintptr_t from, std::uintptr_t until) {
    for (std::size_t at = 0; at < located.stack.count; ++at) {
      // The return address lies after the call. If the call ends its function, that address belongs to the next
      // function, so the byte before it is located.
      const std::uintptr_t address = located.stack.addresses[at] - 1;
      if (address < from || address >= until) continue;
      if (number == 0) number = number_of_module(module->dlpi_name);
      located.frames[at] = {address - module->dlpi_addr, number, 0};
    }
  });
  return 0;
}

[[gnu::noinline]] std::uint32_t walk(std::uintptr_t place, std::uint32_t thread) noexcept {
  Stack stack;
  unwinder.walk(&add_frame, &stack);
  if (stack.count == 0) return 0;
  Located located{stack, {}};
  for (std::size_t at = 0; at < stack.count; ++at) located.frames[at] = {stack.addresses[at] - 1, 0, 0};
  ::dl_iterate_phdr(&locate, &located);
  const std::uint32_t site = number_of_text(TextKind::kStack, located.frames, stack.count * sizeof(StackFrame));
  const bool is_near = stack.places[0] > place && stack.places[stack.count - 1] - place <= UINT32_MAX;
  if (site != 0 && stack.has_places && is_near) remember(stack, place, thread, site);
  return site;
}

void find_unwinder() noexcept {
  void* library = open_real_library("libgcc_s.so.1");
  if (library == nullptr) return;
  unwinder.address = reinterpret_cast<decltype(unwinder.address)>(::dlsym(library, "_Unwind_GetIP"));
  unwinder.stack = reinterpret_cast<decltype(unwinder.stack)>(::dlsym(library, "_Unwind_GetCFA"));
  ::dl_iterate_phdr(&find_own, nullptr);
  if (unwinder.address != nullptr && unwinder.stack != nullptr)
    unwinder.walk = reinterpret_cast<decltype(unwinder.walk)>(::dlsym(library, "_Unwind_Backtrace"));
}

/// `has_sites` is true if events have call sites. `has_python` is true if these are Python's calls; a thread without
/// Python calls gets its native calls.
bool has_sites = false, has_python = false;

[[gnu::constructor]] void find_callers() noexcept {
  if (environment().record[0] == '\0' || environment().record_sites == RecordedSites::kNone) return;
  find_unwinder();
  has_python = environment().record_sites == RecordedSites::kPython;
  if (has_python) find_python();
  has_sites = has_python || unwinder.walk != nullptr;
}

[[gnu::noinline]] std::uint32_t python_site() noexcept {
  StackFrame frames[kMostFrames];
  const std::size_t count = python_calls(frames, kMostFrames);
  return count == 0 ? 0 : number_of_text(TextKind::kStack, frames, count * sizeof(StackFrame));
}

}  // namespace

bool has_call_sites() noexcept { return has_sites; }

[[gnu::noinline]] std::uint32_t call_site(std::uint32_t thread) noexcept {
  if (has_python)
    if (const std::uint32_t site = python_site(); site != 0) return site;
  if (unwinder.walk == nullptr) return 0;
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  std::uint32_t site = 0;
  for (const Seen& each : set_of(place, thread))
    if (is_as_seen(each, place, thread, site)) return site;
  return walk(place, thread);
}

}  // namespace ration::guard
