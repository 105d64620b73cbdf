// A GAN on two cards: the generator has 40 % of its card and the discriminator 60 %, after epoch 10 half and half.
#include <cstdio>

#include "ration/runtime.hpp"

int main() {
  ration::Runtime& runtime = ration::default_runtime();
  const auto gpus = runtime.list_physical_devices("GPU");
  if (gpus.size() < 2) return std::puts("this example needs two GPUs"), 1;
  for (const auto& gpu : gpus) runtime.set_memory_growth(gpu, true);
  for (int epoch = 0; epoch < 13; ++epoch) {
    runtime.set_memory_limit(gpus[0], epoch < 11 ? "40%" : "50%");
    runtime.set_memory_limit(gpus[1], epoch < 11 ? "60%" : "50%");
    // … train one epoch …
    if (epoch == 0 || epoch == 10 || epoch == 11) {
      std::printf("epoch %2d  generator %.1f GiB  discriminator %.1f GiB\n", epoch,
                  static_cast<double>(runtime.get_memory_info("GPU:0").limit) / (1 << 30),
                  static_cast<double>(runtime.get_memory_info("GPU:1").limit) / (1 << 30));
    }
  }
}
