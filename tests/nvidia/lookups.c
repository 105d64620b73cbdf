/* Prints, for each name on standard input, what dlsym and both forms of cuGetProcAddress answer: one line for each name, way and flag, with the
 * answers of all versions in order. An answer is CODE/STATUS/SYMBOL@LIBRARY; SYMBOL is the exported name of the function, "-" for none, "?" where
 * it is exported under no name. Arguments: the versions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Get(const char*, void**, int, unsigned long long);
typedef int GetWithStatus(const char*, void**, int, unsigned long long, int*);

static void print_answer(int code, int status, void* function) {
  Dl_info where;
  if (function == NULL) {
    printf("\t%d/%d/-@-", code, status);
  } else if (dladdr(function, &where) == 0) {
    printf("\t%d/%d/?@?", code, status);
  } else {
    printf("\t%d/%d/%s@%s", code, status, where.dli_saddr == function ? where.dli_sname : "?", where.dli_fname);
  }
}

int main(int count, char** versions) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return printf("%s\n", dlerror()), 1;
  Get* get = (Get*)dlsym(library, "cuGetProcAddress");
  GetWithStatus* get_with_status = (GetWithStatus*)dlsym(library, "cuGetProcAddress_v2");
  char name[256];
  while (fgets(name, sizeof name, stdin) != NULL) {
    name[strcspn(name, "\n")] = '\0';
    printf("%s dlsym", name);
    print_answer(0, 0, dlsym(library, name));
    printf("\n");
    for (unsigned long long flags = 0; flags <= 4; ++flags) {
      if (get != NULL) {
        printf("%s cuGetProcAddress(%llu)", name, flags);
        for (int i = 1; i < count; ++i) {
          void* function = NULL;
          const int code = get(name, &function, atoi(versions[i]), flags);
          print_answer(code, 0, function);
        }
        printf("\n");
      }
      if (get_with_status != NULL) {
        printf("%s cuGetProcAddress_v2(%llu)", name, flags);
        for (int i = 1; i < count; ++i) {
          void* function = NULL;
          int status = -1;
          const int code = get_with_status(name, &function, atoi(versions[i]), flags, &status);
          print_answer(code, status, function);
        }
        printf("\n");
      }
    }
  }
  return 0;
}
