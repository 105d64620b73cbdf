// A driver with every function of the table, none of which does anything but say who it is: what the routes of
// test_routes.cpp must not reach for hooked functions, and must reach for all the others.
// FAKE_HIDDEN=1 makes its cuGetProcAddress hand out functions that dlsym does not know, as a driver may.
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

#define RATION_DRIVER_SYMBOL(index, symbol, ...)                                  \
  [[gnu::weak, gnu::visibility("default")]] int symbol() { return 1000 + index; } \
  static int hidden_##symbol() { return 1000 + index; }
#include "guard/driver_symbols.inc"
#undef RATION_DRIVER_SYMBOL

struct Row {
  const char* base;
  int since;
  bool per_thread;
  void* exported;
  void* hidden;
};

static bool is_per_thread(const char* mode) { return mode[0] == 'p' && mode[1] == 't'; }

#define RATION_DRIVER_SYMBOL(index, symbol, base, since, mode, hooked) \
  {#base, since, is_per_thread(#mode), reinterpret_cast<void*>(&symbol), reinterpret_cast<void*>(&hidden_##symbol)},
static const Row* rows(std::size_t& count) {
  static const Row all[] = {
#include "guard/driver_symbols.inc"
  };
  count = sizeof all / sizeof all[0];
  return all;
}
#undef RATION_DRIVER_SYMBOL

int cuMemAlloc_v9(int);
static int handed_out_of_tomorrow(int number) { return number + 5; }

[[gnu::visibility("hidden")]] int fake_resolve(const char* name, void** function, int version, std::uint64_t flags) {
  std::size_t count = 0;
  const Row* all = rows(count);
  const bool hidden = std::getenv("FAKE_HIDDEN") != nullptr;
  const Row* best = nullptr;  // the newest version that is old enough, in the stream variant asked for
  *function = nullptr;
  if (std::strcmp(name, "cuMemPoolOfTomorrow") == 0) {
    *function = reinterpret_cast<void*>(&handed_out_of_tomorrow);
    return 0;
  }
  if (std::strcmp(name, "cuMemAlloc") == 0 && version >= 99000) {
    *function = reinterpret_cast<void*>(&cuMemAlloc_v9);
    return 0;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Row& row = all[i];
    if (std::strcmp(row.base, name) != 0 || row.since > version) continue;
    if (row.per_thread && (flags & 2) == 0) continue;
    if (best == nullptr || row.since > best->since ||
        (row.since == best->since && row.per_thread && !best->per_thread)) {
      best = &row;
    }
  }
  if (best == nullptr) return 500;
  *function = hidden ? best->hidden : best->exported;
  return 0;
}

}  // extern "C"
