// NVML's private table of functions, which nvidia-smi calls in addition to NVML's public functions. Its layout is not
// from NVIDIA's code. NVIDIA's mock NVML (pkg/gpu/mocknvml/bridge/internal.go in NVIDIA/k8s-test-infra) publishes the
// table's name, its size, the slots 81 and 213 to 215 and the entry of a process, for 580. Trials with the nvidia-smi
// of 470, 535, 550 and 555 showed which slots each of them calls. A slot has the same meaning in all of them, but 470
// lists processes with public functions. Slot 23 tells how far two GPUs are apart (topo), 26 prints to the log of
// nvidia-smi, 72 tells whether a device can be watched (dmon, pmon), 108 tells the enforced power limit; every other
// slot may answer "not supported".
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "nvml_devices.hpp"

using namespace ration::nvml;
using namespace ration::sim;

extern "C" nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* out);
extern "C" nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus, nvmlDevice_t* out);
extern "C" nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, int* out);
extern "C" nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* out);

namespace {

constexpr unsigned char kName[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                     0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

struct Process {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
  unsigned long long used_protected;
  char name[4096];
};
static_assert(sizeof(Process) == 4128);

nvmlReturn_t print_to_log(const char*, ...) { return NVML_SUCCESS; }

nvmlReturn_t handle_by_index(unsigned int index, nvmlDevice_t* out, unsigned int, unsigned int) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

/// Writes the topology level between two GPUs: 0 if they are below one bridge, 1 for the next level, and so on. `one`
/// and `other` begin with a GPU's bus address.
nvmlReturn_t common_ancestor(const char* one, const char* other, int* out) {
  nvmlDevice_t first = nullptr, second = nullptr;
  int level = 0;
  if (const auto state = nvmlDeviceGetHandleByPciBusId_v2(one, &first); state != NVML_SUCCESS) return state;
  if (const auto state = nvmlDeviceGetHandleByPciBusId_v2(other, &second); state != NVML_SUCCESS) return state;
  if (const auto state = nvmlDeviceGetTopologyCommonAncestor(first, second, &level); state != NVML_SUCCESS)
    return state;
  constexpr int kStep = 10;  // between the values of nvmlGpuTopologyLevel_t
  *out = level / kStep - 1;
  return NVML_SUCCESS;
}

nvmlReturn_t can_be_watched(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  *out = 1;
  return NVML_SUCCESS;
}

nvmlReturn_t list_computing(nvmlDevice_t device, unsigned int* count, Process* out) {
  if (const auto state = valid_for_memory(device, count); state != NVML_SUCCESS) return state;
  const auto uses = listed(device);
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(uses.size());
  if (room < uses.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (out == nullptr && !uses.empty()) return NVML_ERROR_INVALID_ARGUMENT;
  for (const auto& [place, use] : uses) {
    const Model& model = Node::get()->models()[static_cast<std::size_t>(place)];
    const bool is_whole = model.profile.empty();
    out->pid = static_cast<unsigned int>(use.pid);
    out->used = use.held.count();
    out->gpu_instance = is_whole ? kNoInstance : gpu_instance(model);
    out->compute_instance = is_whole ? kNoInstance : 0;
    out->used_protected = 0;
    std::snprintf(out->name, sizeof out->name, "%s", process_name(use.pid).c_str());
    ++out;
  }
  return NVML_SUCCESS;
}

/// Writes an empty list of processes: none draws, and there is no MPS server.
nvmlReturn_t list_none(nvmlDevice_t device, unsigned int* count, Process*) { return answer(device, count, 0U); }

nvmlReturn_t not_supported() { return NVML_ERROR_NOT_SUPPORTED; }

constexpr std::size_t kSlots = 512;

struct Table {
  std::size_t size = sizeof(Table);
  std::array<const void*, kSlots - 1> rest{};

  Table() {
    rest.fill(reinterpret_cast<const void*>(&not_supported));
    set(23, &common_ancestor);
    set(26, &print_to_log);
    set(72, &can_be_watched);
    set(81, &handle_by_index);
    set(108, &nvmlDeviceGetEnforcedPowerLimit);
    set(213, &list_computing);
    set(214, &list_none);
    set(215, &list_none);
  }
  template <typename Function>
  void set(std::size_t slot, Function* function) {
    rest[slot - 1] = reinterpret_cast<const void*>(function);
  }
};
static_assert(sizeof(Table) == kSlots * sizeof(void*));

}  // namespace

RATION_NVML nvmlInternalGetExportTable(const void** out, const void* name) {
  if (out == nullptr || name == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::memcmp(name, kName, sizeof kName) != 0) return NVML_ERROR_NOT_SUPPORTED;
  static const Table& table = *new Table;
  *out = &table;
  return NVML_SUCCESS;
}
