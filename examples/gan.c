/* A GAN on two cards: the generator has 40 % of its card and the discriminator 60 %, after epoch 10 half and half. */
#include "common.h"

int main(void) {
  size_t count = find_gpus(2);
  for (size_t i = 0; i < count; ++i) must(ration_set_memory_growth(NULL, &gpus[i], 1));
  for (int epoch = 0; epoch < 13; ++epoch) {
    must(ration_set_memory_limit_fraction(NULL, &gpus[0], epoch < 11 ? 0.4 : 0.5));
    must(ration_set_memory_limit_fraction(NULL, &gpus[1], epoch < 11 ? 0.6 : 0.5));
    /* … train one epoch … */
    if (epoch == 0 || epoch == 10 || epoch == 11)
      printf("epoch %2d  generator %.1f GiB  discriminator %.1f GiB\n", epoch, info_of("GPU:0").limit / 1073741824.0,
             info_of("GPU:1").limit / 1073741824.0);
  }
  return 0;
}
