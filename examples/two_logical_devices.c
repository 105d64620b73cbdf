/* One card as two devices of 2 GiB, so that code for several devices can be tested on a machine with one. */
#include "common.h"

int main(void) {
  (void)find_gpus(1);
  ration_logical_configuration half = {sizeof half, RATION_HAS_MEMORY_LIMIT, 2048, 0, 0};
  ration_logical_configuration both[2] = {half, half};
  must(ration_set_visible_devices(NULL, gpus, 1, "GPU"));
  must(ration_set_logical_devices(NULL, &gpus[0], both, 2));
  ration_device made[4];
  size_t count = 0;
  must(ration_list_logical_devices(NULL, "GPU", made, 4, &count));
  for (size_t i = 0; i < count; ++i)
    printf("%s %llu MiB\n", made[i].name, (unsigned long long)(info_of(made[i].name).limit >> 20));
  return count == 2 ? 0 : 1;
}
