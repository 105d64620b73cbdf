/* Eight small models on one 24 GiB card: four slices of 6 GiB with two models each. */
#include "common.h"

int main(void) {
  (void)find_gpus(1);
  ration_logical_configuration slices[4];
  for (int i = 0; i < 4; ++i) {
    ration_logical_configuration slice = {sizeof slice, RATION_HAS_MEMORY_LIMIT, 5700, 0, 0};
    slices[i] = slice;
  }
  must(ration_set_visible_devices(NULL, gpus, 1, "GPU"));
  must(ration_set_logical_devices(NULL, &gpus[0], slices, 4));
  void* weights[8];
  for (int model = 0; model < 8; ++model) {
    must(ration_allocate(NULL, model % 4, (size_t)600 << 20, 0, NULL, &weights[model]));
    printf("model %d -> /device:GPU:%d\n", model, model % 4);
  }
  for (int model = 0; model < 8; ++model) must(ration_deallocate(NULL, model % 4, weights[model], NULL));
  return 0;
}
