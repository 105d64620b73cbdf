#include "guard/unlisted.hpp"

#include <atomic>
#include <cstring>

#include "driver/memory_words.hpp"
#include "guard/environment.hpp"
#include "guard/unlisted_count.h"

extern "C" {
[[gnu::visibility("hidden")]] extern char ration_unlisted_entries[];
[[gnu::visibility("hidden")]] extern void* ration_unlisted_slots[];
}

namespace ration::guard {
namespace {

struct Unlisted {
  std::atomic<void*> function{nullptr};  // written after the name
  char name[56] = {};
};
Unlisted all[RATION_UNLISTED_COUNT];
std::atomic<std::uint32_t> used{0};

void* entry(std::uint32_t number) noexcept {
  return ration_unlisted_entries + std::size_t{number} * RATION_UNLISTED_STRIDE;
}

}  // namespace

void* entry_of_unlisted(const char* name, void* function) noexcept {
  if (!environment().governed || !driver::may_concern_memory(name)) return function;
  for (std::uint32_t number = 0; number < RATION_UNLISTED_COUNT; ++number) {
    if (all[number].function.load(std::memory_order_acquire) == function) return entry(number);
  }
  std::uint32_t number = used.load(std::memory_order_relaxed);
  while (number < RATION_UNLISTED_COUNT && !used.compare_exchange_weak(number, number + 1)) {
  }
  if (number >= RATION_UNLISTED_COUNT) {
    note_unlisted(name);
    return function;
  }
  std::strncpy(all[number].name, name, sizeof all[number].name - 1);
  all[number].function.store(function, std::memory_order_release);
  return entry(number);
}

void* first_call_of_unlisted(std::uint32_t number) noexcept {
  note_unlisted(all[number].name);
  void* function = all[number].function.load(std::memory_order_acquire);
  __atomic_store_n(&ration_unlisted_slots[number], function, __ATOMIC_RELEASE);
  return function;
}

}  // namespace ration::guard
