// A guard around an augmentation step that forgets to give its buffers back.
#include <cstdio>

#include "ration/guard.hpp"

int main() {
  ration::Runtime runtime;
  const auto gpus = runtime.list_physical_devices("GPU");
  if (gpus.empty()) return std::puts("this example needs a GPU"), 1;
  for (const auto& gpu : gpus) runtime.set_memory_growth(gpu, true);
  try {
    for (int step = 0; step < 10; ++step)
      ration::guard_memory(runtime, 256 << 20, "augment", [&] { (void)runtime.allocate(0, 300 << 20); });
  } catch (const ration::MemoryLimitExceeded& error) {
    std::printf("caught: %s\n", error.what());
    return 0;
  }
  return std::puts("the leak was not caught"), 1;
}
