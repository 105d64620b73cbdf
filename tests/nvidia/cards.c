// Prints each card as NVML and as the driver count them: whose count, its UUID, and the bytes that the driver says it has.
#include <stdio.h>

typedef struct { unsigned char bytes[16]; } Uuid;
int nvmlInit_v2(void), nvmlDeviceGetCount_v2(unsigned*), nvmlDeviceGetHandleByIndex_v2(unsigned, void**), nvmlDeviceGetUUID(void*, char*, unsigned);
int cuInit(unsigned), cuDeviceGetCount(int*), cuDeviceGetUuid(Uuid*, int), cuDeviceTotalMem_v2(size_t*, int);

int main(void) {
  unsigned cards = 0;
  int devices = 0;
  if (nvmlInit_v2() || nvmlDeviceGetCount_v2(&cards) || cuInit(0) || cuDeviceGetCount(&devices)) return 1;
  for (unsigned card = 0; card < cards; ++card) {
    void* handle;
    char text[96];
    if (nvmlDeviceGetHandleByIndex_v2(card, &handle) || nvmlDeviceGetUUID(handle, text, sizeof text)) return 2;
    printf("nvml %s\n", text);
  }
  for (int device = 0; device < devices; ++device) {
    Uuid uuid;
    size_t total;
    if (cuDeviceGetUuid(&uuid, device) || cuDeviceTotalMem_v2(&total, device)) return 3;
    printf("cuda GPU-");
    for (int at = 0; at < 16; ++at) printf("%s%02x", at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "", uuid.bytes[at]);
    printf(" %zu\n", total);
  }
  return 0;
}
