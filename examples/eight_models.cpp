// Eight small models on one 24 GiB card: four slices of 6 GiB with two models each, each with its own bound inside.
#include <cstdio>
#include <vector>

#include "ration/memory_resource.hpp"

int main() {
  ration::Runtime runtime;
  const auto gpus = runtime.list_physical_devices("GPU");
  if (gpus.empty()) return std::puts("this example needs a GPU"), 1;
  runtime.set_visible_devices({gpus[0]}, "GPU");
  runtime.set_logical_device_configuration(gpus[0], {4, ration::LogicalDeviceConfiguration{5700, {}, {}}});
  using Model = ration::LimitingAdaptor<ration::DeviceMemoryResource>;
  std::vector<ration::Buffer<float, Model>> weights;
  for (int model = 0; model < 8; ++model) {
    const Model memory(ration::DeviceMemoryResource(runtime, model % 4), std::size_t{2800} << 20);
    weights.emplace_back(memory, std::size_t{600} << 18);  // 600 MiB
    std::printf("model %d -> /device:GPU:%d\n", model, model % 4);
  }
}
