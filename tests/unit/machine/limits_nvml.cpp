// A management library with one device, of which it keeps a limit for each cgroup, as release 615 does. `/refused` it
// does not permit, and for `/broken` it answers an error of its own.
#include <cstring>
#include <map>
#include <string>

#include "driver/nvml_abi.hpp"

using namespace ration::nvml;

namespace {

std::map<std::string, unsigned long long>& limits() {
  static std::map<std::string, unsigned long long> all;
  return all;
}

nvmlReturn_t answer_for(const char* cgroup) {
  if (std::strcmp(cgroup, "/refused") == 0) return NVML_ERROR_NO_PERMISSION;
  return std::strcmp(cgroup, "/broken") == 0 ? static_cast<nvmlReturn_t>(999) : NVML_SUCCESS;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  static int only;
  *device = reinterpret_cast<nvmlDevice_t>(&only);
  return index == 0 ? NVML_SUCCESS : static_cast<nvmlReturn_t>(2);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char* text, unsigned int size) {
  std::strncpy(text, "GPU-00000000-0000-0000-0000-000000000001", size);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  *memory = {16ULL << 30, 16ULL << 30, 0};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t, int* major, int* minor) {
  *major = 12, *minor = 1;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t, unsigned int size, unsigned long* nodes, unsigned int) {
  std::memset(nodes, 0, size * sizeof *nodes);
  nodes[0] = nodes[1] = 1UL << 1;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t, nvmlSetMemoryLimits_v1_t* wish) {
  const nvmlReturn_t answer = answer_for(wish->nameSpace);
  if (answer == NVML_SUCCESS) limits()[wish->nameSpace] = wish->hardLimit;
  return answer;
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t, nvmlGetMemoryLimits_v1_t* found) {
  const auto known = limits().find(found->nameSpace);
  found->hardLimit = known == limits().end() ? kNoMemoryLimit : known->second;
  return answer_for(found->nameSpace);
}
}
