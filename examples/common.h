/* What the C examples share: the GPUs, and giving up with the library's own words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/ration.h"

static void must(ration_status status) {
  if (status == RATION_OK) return;
  fprintf(stderr, "%s\n", ration_last_error());
  exit(1);
}

static ration_device gpus[16];

static size_t find_gpus(size_t needed) {
  size_t count = 0;
  must(ration_list_physical_devices(NULL, "GPU", gpus, 16, &count));
  if (count >= needed) return count;
  fprintf(stderr, "this example needs %zu GPUs\n", needed);
  exit(1);
}

static ration_memory_info info_of(const char* device) {
  ration_memory_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  must(ration_get_memory_info(NULL, device, &info));
  return info;
}
