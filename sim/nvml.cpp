// The simulated management library: what every process on the node holds, whoever asks.
#include <cstdio>
#include <cstring>
#include <string>

#include "driver/nvml_abi.hpp"
#include "node.hpp"

#define RATION_NVML extern "C" [[gnu::visibility("default")]] ration::nvml::nvmlReturn_t

using namespace ration::nvml;
using ration::sim::Node;

namespace {

bool initialised = false;

int index_of(nvmlDevice_t device) { return static_cast<int>(reinterpret_cast<std::intptr_t>(device)) - 1; }
nvmlDevice_t handle_of(int index) { return reinterpret_cast<nvmlDevice_t>(static_cast<std::intptr_t>(index) + 1); }
int count() { return static_cast<int>(Node::get()->models().size()); }

std::string uuid_text(int device) {
  unsigned char bytes[16];
  Node::get()->uuid(device, bytes);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", bytes[i]);
    text += pair;
  }
  return text;
}

nvmlReturn_t put(const std::string& text, char* out, unsigned int size) {
  if (text.size() + 1 > size) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t valid(nvmlDevice_t device) {
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  return index_of(device) >= 0 && index_of(device) < count() ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

template <typename Info>
nvmlReturn_t processes(nvmlDevice_t device, unsigned int* size, Info* out) {
  if (const auto state = valid(device); state != NVML_SUCCESS) return state;
  const auto uses = Node::get()->uses(index_of(device));
  const unsigned int room = *size;
  *size = static_cast<unsigned int>(uses.size());
  if (room < uses.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    out[i] = Info{};
    out[i].pid = static_cast<unsigned int>(uses[i].pid);
    out[i].usedGpuMemory = uses[i].held.count();
  }
  return NVML_SUCCESS;
}

}  // namespace

RATION_NVML nvmlInit_v2() {
  initialised = Node::get() != nullptr;
  return initialised ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}
RATION_NVML nvmlInit() { return nvmlInit_v2(); }
RATION_NVML nvmlShutdown() { return initialised ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED; }
RATION_NVML nvmlDeviceGetCount_v2(unsigned int* out) {
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  *out = static_cast<unsigned int>(count());
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* out) {
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  if (static_cast<int>(index) >= count()) return NVML_ERROR_INVALID_ARGUMENT;
  *out = handle_of(static_cast<int>(index));
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  if (!initialised) return NVML_ERROR_UNINITIALIZED;
  for (int i = 0; i < count(); ++i) {
    if (uuid_text(i) != uuid) continue;
    *out = handle_of(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
RATION_NVML nvmlDeviceGetUUID(nvmlDevice_t device, char* out, unsigned int size) {
  if (const auto state = valid(device); state != NVML_SUCCESS) return state;
  return put(uuid_text(index_of(device)), out, size);
}
RATION_NVML nvmlDeviceGetName(nvmlDevice_t device, char* out, unsigned int size) {
  if (const auto state = valid(device); state != NVML_SUCCESS) return state;
  return put(Node::get()->models()[static_cast<std::size_t>(index_of(device))].name, out, size);
}
RATION_NVML nvmlSystemGetDriverVersion(char* out, unsigned int size) { return put("580.0-sim", out, size); }
RATION_NVML nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* out) {
  if (const auto state = valid(device); state != NVML_SUCCESS) return state;
  (void)Node::get()->uses(index_of(device));  // dead processes hold nothing
  out->total = Node::get()->models()[static_cast<std::size_t>(index_of(device))].total.count();
  out->free = Node::get()->free(index_of(device)).count();
  out->used = out->total - out->free;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_t* out) {
  return processes(device, size, out);
}
RATION_NVML nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_t* out) {
  return processes(device, size, out);
}
RATION_NVML nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_v1_t* out) {
  return processes(device, size, out);
}

