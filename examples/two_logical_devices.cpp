// One card as two devices of 2 GiB, so that code for several devices can be tested on a machine with one.
#include <cstdio>

#include "ration/runtime.hpp"

int main() {
  ration::Runtime runtime;
  const auto gpus = runtime.list_physical_devices("GPU");
  if (gpus.empty()) return std::puts("this example needs a GPU"), 1;
  runtime.set_visible_devices({gpus[0]}, "GPU");
  runtime.set_logical_device_configuration(gpus[0], {{2048, {}, {}}, {2048, {}, {}}});
  for (const auto& device : runtime.list_logical_devices("GPU")) {
    std::printf("%s %lu MiB\n", device.name.c_str(),
                static_cast<unsigned long>(runtime.get_memory_info(device.name).limit >> 20));
  }
}
