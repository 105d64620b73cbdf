/* Watching a step that forgets to give its buffers back: the peak of the pool, beside what it had before. */
#include "common.h"

static void augment(void) {
  void* forgotten = NULL;
  must(ration_allocate(NULL, 0, (size_t)300 << 20, 0, NULL, &forgotten));
}

int main(void) {
  size_t count = find_gpus(1);
  for (size_t i = 0; i < count; ++i) must(ration_set_memory_growth(NULL, &gpus[i], 1));
  for (int step = 0; step < 10; ++step) {
    uint64_t before = info_of("GPU:0").current;
    must(ration_reset_memory_stats(NULL, "GPU:0"));
    augment();
    uint64_t growth = info_of("GPU:0").peak - before;
    if (growth > (uint64_t)256 << 20) {
      printf("caught: step %d took %llu MiB, more than its 256 MiB\n", step, (unsigned long long)(growth >> 20));
      return 0;
    }
  }
  puts("the leak was not caught");
  return 1;
}
