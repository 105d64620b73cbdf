// A program of somebody who has never heard of ration: finds the driver the way its arguments say, takes 512 MiB and 2 GiB,
// and prints what it was answered and which files named libcuda it has by then.
//   program linked            it is linked with the driver
//   program open FILE         dlopen(FILE)
//   program plugin FILE       dlopen(FILE), a library that is linked with the driver
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef LINKED
extern int cuInit(unsigned);
void* needed(void) { return (void*)&cuInit; }
#else
void* needed(void) { return NULL; }
#endif

int main(int count, char** words) {
  void* library = RTLD_DEFAULT;
  if (count > 2) library = dlopen(words[2], RTLD_NOW | RTLD_GLOBAL);
  if (count > 2 && library == NULL) return printf("%s\n", dlerror()), 3;
  if (count == 2 && needed() == NULL) return 4;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  int (*retain)(void**, int) = (int (*)(void**, int))dlsym(library, "cuDevicePrimaryCtxRetain");
  int (*current)(void*) = (int (*)(void*))dlsym(library, "cuCtxSetCurrent");
  int (*take)(unsigned long*, size_t) = (int (*)(unsigned long*, size_t))dlsym(library, "cuMemAlloc_v2");
  void* context = NULL;
  unsigned long block;
  int started = init(0);
  if (started == 0) retain(&context, 0), current(context);
  printf("%d %d %d\n", started, take(&block, 512ul << 20), take(&block, 2ul << 30));
  char line[4096], last[4096] = "";
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps) != NULL) {
    char* path = strchr(line, '/');
    if (path == NULL || strstr(path, "/libcuda.so") == NULL || strcmp(path, last) == 0) continue;
    fputs(strcpy(last, path), stdout);
  }
  return 0;
}
