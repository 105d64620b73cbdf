// The simulated NVML, which reports to any process what every process on the node holds.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "card_sheet.hpp"
#include "nvml_devices.hpp"

using namespace ration::nvml;
using namespace ration::sim;

namespace {

const std::vector<Model>& models() { return Node::get()->models(); }
const std::vector<int>& cards() { return Node::get()->cards(); }

std::string uuid_text(nvmlDevice_t device) {
  return is_divided(device) ? Node::get()->card_uuid_text(index_of(device)) : Node::get()->uuid_text(index_of(device));
}

std::string bus_text(nvmlDevice_t device, const char* form) {
  char text[32];
  std::snprintf(text, sizeof text, form, static_cast<unsigned>(model(device).card) + 1);
  return text;
}

template <typename Info>
nvmlReturn_t processes(nvmlDevice_t device, unsigned int* size, Info* out) {
  if (const auto state = valid_for_memory(device, size); state != NVML_SUCCESS) return state;
  const auto uses = listed(device);
  const unsigned int room = *size;
  *size = static_cast<unsigned int>(uses.size());
  if (room < uses.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (out == nullptr && !uses.empty()) return NVML_ERROR_INVALID_ARGUMENT;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    out[i] = Info{};
    const auto& [place, use] = uses[i];
    out[i].pid = static_cast<unsigned int>(use.pid);
    out[i].usedGpuMemory = use.held.count();
    if constexpr (requires { out[i].gpuInstanceId; }) {
      const Model& model = models()[static_cast<std::size_t>(place)];
      out[i].gpuInstanceId = model.profile.empty() ? kNoInstance : gpu_instance(model);
      out[i].computeInstanceId = model.profile.empty() ? kNoInstance : 0;
    }
  }
  return NVML_SUCCESS;
}

template <typename Matches>
nvmlReturn_t find_device(nvmlDevice_t* out, Matches&& matches) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<nvmlDevice_t> all;  // GPUs first, since instances share their bus addresses
  for (const int card : cards()) all.push_back(handle_of_card(card));
  for (int device = 0; device < static_cast<int>(models().size()); ++device)
    if (Node::get()->finds(device)) all.push_back(handle_of(device));
  const auto found = std::find_if(all.begin(), all.end(), matches);
  if (found == all.end()) return NVML_ERROR_NOT_FOUND;
  *out = *found;
  return NVML_SUCCESS;
}

}  // namespace

RATION_NVML nvmlInit_v2() {
  if (Node::get() == nullptr) return NVML_ERROR_UNKNOWN;
  note_init();
  return NVML_SUCCESS;
}
RATION_NVML nvmlInit() { return nvmlInit_v2(); }
RATION_NVML nvmlInitWithFlags(unsigned int) { return nvmlInit_v2(); }
RATION_NVML nvmlShutdown() { return note_shutdown() ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED; }
extern "C" [[gnu::visibility("default")]] const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_OPERATING_SYSTEM:
      return "Operating System Error";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument Version Mismatch";
    default:
      return "Unknown Error";
  }
}

RATION_NVML nvmlSystemGetDriverVersion(char* out, unsigned int size) {
  return !is_initialised() ? NVML_ERROR_UNINITIALIZED : put(Node::get()->spec().driver.release, out, size);
}
RATION_NVML nvmlSystemGetNVMLVersion(char* out, unsigned int size) {
  return Node::get() == nullptr ? NVML_ERROR_UNKNOWN
                                : put(std::to_string(Node::get()->spec().driver.cuda_version / 1000) + "." +
                                          Node::get()->spec().driver.release,
                                      out, size);
}
RATION_NVML nvmlSystemGetCudaDriverVersion_v2(int* out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (Node::get() == nullptr) return NVML_ERROR_UNKNOWN;
  *out = Node::get()->spec().driver.cuda_version;
  return NVML_SUCCESS;
}
RATION_NVML nvmlSystemGetCudaDriverVersion(int* out) { return nvmlSystemGetCudaDriverVersion_v2(out); }
RATION_NVML nvmlSystemGetProcessName(unsigned int pid, char* out, unsigned int size) {
  const std::string name = process_name(static_cast<int>(pid));
  if (name.empty()) return NVML_ERROR_NOT_FOUND;
  return put(name.substr(0, size > 0 ? size - 1 : 0), out, size);
}

RATION_NVML nvmlDeviceGetCount_v2(unsigned int* out) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = static_cast<unsigned int>(cards().size());
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetCount(unsigned int* out) { return nvmlDeviceGetCount_v2(out); }
RATION_NVML nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* out) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  if (out == nullptr || index >= cards().size()) return NVML_ERROR_INVALID_ARGUMENT;
  *out = handle_of_card(cards()[index]);
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}
RATION_NVML nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return find_device(out, [&](nvmlDevice_t device) { return uuid_text(device) == uuid; });
}
RATION_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus, nvmlDevice_t* out) {
  if (bus == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return find_device(out, [&](nvmlDevice_t device) {
    return bus_text(device, "00000000:%02X:00.0") == bus || bus_text(device, "0000:%02X:00.0") == bus ||
           bus_text(device, "0000:%02x:00.0") == bus;
  });
}
RATION_NVML nvmlDeviceGetHandleByPciBusId(const char* bus, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus, out);
}

RATION_NVML nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const auto place = std::find(cards().begin(), cards().end(), model(device).card) - cards().begin();
  *out = static_cast<unsigned int>(is_instance(device) ? model(device).instance : place);
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  *out = static_cast<unsigned int>(model(device).card);
  return NVML_SUCCESS;
}

// The functions about instances of a GPU in MIG mode (NVML API reference, multi-instance GPU management).
RATION_NVML nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  if (const auto state = valid(device, current); state != NVML_SUCCESS) return state;
  if (pending == nullptr || is_instance(device)) return NVML_ERROR_INVALID_ARGUMENT;
  // The large GPUs of each generation have MIG: A30, A100, H100, B200.
  const bool is_large = model(device).capability_minor == 0 && model(device).capability_major >= 8;
  if (!is_large && !is_divided(device)) return NVML_ERROR_NOT_SUPPORTED;
  *current = *pending = is_divided(device) ? 1 : 0;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  *out = is_divided(device) ? 7 : 0;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (is_instance(device)) return NVML_ERROR_INVALID_ARGUMENT;
  auto devices = devices_of(device);
  std::erase_if(devices, [](int each) { return !Node::get()->finds(each); });
  if (!is_divided(device) || index >= devices.size()) return NVML_ERROR_NOT_FOUND;
  *out = handle_of(devices[index]);
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (!is_instance(device)) return NVML_ERROR_INVALID_ARGUMENT;
  *out = handle_of_card(model(device).card);
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  *out = is_instance(device) ? 1 : 0;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (!is_instance(device)) return NVML_ERROR_INVALID_ARGUMENT;
  *out = gpu_instance(model(device));
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (!is_instance(device)) return NVML_ERROR_INVALID_ARGUMENT;
  *out = 0;
  return NVML_SUCCESS;
}
/// Returns the attributes of an instance. Engines are not simulated: every instance reports one copy engine per slice
/// and no other engines, as the smallest profile does.
RATION_NVML nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (!is_instance(device)) return NVML_ERROR_NOT_SUPPORTED;
  const auto slices = static_cast<unsigned int>(std::atoi(model(device).profile.c_str()));
  *out = {};
  out->multiprocessorCount = static_cast<unsigned int>(model(device).multiprocessors);
  out->sharedCopyEngineCount = out->gpuInstanceSliceCount = out->computeInstanceSliceCount = slices;
  out->memorySizeMB = model(device).total.count() >> 20;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetUUID(nvmlDevice_t device, char* out, unsigned int size) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return put(uuid_text(device), out, size);
}
RATION_NVML nvmlDeviceGetName(nvmlDevice_t device, char* out, unsigned int size) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return put(is_divided(device) ? card_name(model(device)) : model(device).name, out, size);
}
RATION_NVML nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  *out = {};
  std::snprintf(out->busId, sizeof out->busId, "%s", bus_text(device, "00000000:%02X:00.0").c_str());
  std::snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%s", bus_text(device, "0000:%02X:00.0").c_str());
  out->bus = static_cast<unsigned int>(model(device).card) + 1;
  out->pciDeviceId = sheet_of(model(device)).pci_device;
  out->pciSubSystemId = sheet_of(model(device)).pci_subsystem;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t* out) {
  constexpr unsigned int kVersion = sizeof(nvmlPciInfoExt_v1_t) | 1U << 24, kDisplay = 3, k3d = 2;
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (out->version != kVersion) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlPciInfo_t plain{};
  if (const auto state = nvmlDeviceGetPciInfo_v3(device, &plain); state != NVML_SUCCESS) return state;
  *out = {kVersion, plain.domain, plain.bus, plain.device, plain.pciDeviceId, plain.pciSubSystemId, kDisplay, k3d, {}};
  std::memcpy(out->busId, plain.busId, sizeof out->busId);
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  if (const auto state = valid(device, major); state != NVML_SUCCESS || minor == nullptr)
    return state != NVML_SUCCESS ? state : NVML_ERROR_INVALID_ARGUMENT;
  *major = model(device).capability_major;
  *minor = model(device).capability_minor;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long* nodes, unsigned int) {
  if (const auto state = valid(device, nodes); state != NVML_SUCCESS) return state;
  const int numa = model(device).numa;
  if (numa < 0) return NVML_ERROR_NOT_SUPPORTED;
  constexpr unsigned int kBits = 64;
  const unsigned int word = static_cast<unsigned int>(numa) / kBits;
  if (word >= size) return NVML_ERROR_INVALID_ARGUMENT;
  std::fill_n(nodes, size, 0UL);
  nodes[word] = 1UL << (static_cast<unsigned int>(numa) % kBits);
  return NVML_SUCCESS;
}
// These functions report the utilisation that the node's description gives, and a fixed temperature. "On MIG-enabled
// GPUs, querying device utilization rates is not currently supported" (NVML); the same holds here for the utilisation
// by processes.
RATION_NVML nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return answer_of_card(device, out, nvmlUtilization_t{model(device).utilisation, 0});
}
RATION_NVML nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* out,
                                            unsigned int* count, unsigned long long) {
  if (const auto state = valid(device, count); state != NVML_SUCCESS) return state;
  if (is_divided(device) || is_instance(device)) return NVML_ERROR_NOT_SUPPORTED;
  constexpr int kOnHost = 1 << 20;  // a process's number on the host is higher by this than its number in a container
  const auto uses = listed(device);
  const unsigned int room = *count;
  *count = model(device).utilisation > 0 ? static_cast<unsigned int>(uses.size()) : 0;
  if (*count == 0) return NVML_ERROR_NOT_FOUND;
  if (out == nullptr || room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    out[i] = {};
    out[i].pid =
        static_cast<unsigned int>(uses[i].second.pid + (Node::get()->spec().driver.process_bytes ? 0 : kOnHost));
    out[i].smUtil = model(device).utilisation;
  }
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetTemperature(nvmlDevice_t device, int, unsigned int* out) { return answer(device, out, 35U); }
RATION_NVML nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t* out) {
  constexpr unsigned int kVersion = sizeof(nvmlTemperature_v1_t) | 1U << 24;
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (out->version != kVersion) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  unsigned int degrees = 0;
  const auto state = nvmlDeviceGetTemperature(device, 0, &degrees);
  out->temperature = static_cast<int>(degrees);
  return state;
}
RATION_NVML nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  *out = model(device).persistence ? 1 : 0;
  return NVML_SUCCESS;
}

RATION_NVML nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* out) {
  if (const auto state = valid_for_memory(device, out); state != NVML_SUCCESS) return state;
  if (!model(device).memory_info) return NVML_ERROR_NOT_SUPPORTED;
  *out = {};
  for (const int each : devices_of(device)) {
    (void)Node::get()->uses(each);  // reaps dead processes
    out->total += models()[static_cast<std::size_t>(each)].total.count();
    out->free += Node::get()->free(each).count();
  }
  out->used = out->total - out->free;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* out) {
  constexpr unsigned int kVersion = sizeof(nvmlMemory_v2_t) | 2U << 24;
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (out->version != kVersion) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t plain{};
  if (const auto state = nvmlDeviceGetMemoryInfo(device, &plain); state != NVML_SUCCESS) return state;
  // From release 615 on, this function reports to a process in a limited cgroup only the memory that the limit leaves.
  // nvmlDeviceGetMemoryInfo() does not.
  const auto seen = Node::get()->seen(index_of(device));
  const bool limited = !is_divided(device) && seen.total.count() < plain.total;
  const auto reserved = limited ? 0 : model(device).reserved.count();
  *out = {kVersion, limited ? seen.total.count() : plain.total, reserved, limited ? seen.free.count() : plain.free,
          limited ? seen.used.count() : plain.used - reserved};
  return NVML_SUCCESS;
}

// Limits of cgroups exist from release 615 on. Older drivers lack these functions. The library in sim/ serves every
// release and cannot lack them, so for older releases they return "not supported". The other errors are those of the
// header of CUDA 13.4. For a folder that is not a cgroup, the error is "not found"; NVIDIA's page on memory
// partitioning names that error for a cgroup without the controller's files. Every user may read limits; only root may
// set them. A group without limits reports "no limit", as the controller's files do.
namespace {

template <typename Limits>
nvmlReturn_t find_group(nvmlDevice_t device, const Limits* limits, std::string& out) {
  if (const auto state = valid(device, limits); state != NVML_SUCCESS) return state;
  // Instances have no limits ("Memory Partitioning", R615: MIG is not supported).
  if (!Node::get()->spec().driver.group_limits || is_divided(device) || is_instance(device))
    return NVML_ERROR_NOT_SUPPORTED;
  if (limits->nameSpace == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (::access(limits->nameSpace, F_OK) != 0) return NVML_ERROR_OPERATING_SYSTEM;
  return ration::sim::find_group(limits->nameSpace, out) ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

}  // namespace

RATION_NVML nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t* limits) {
  std::string group;
  if (const auto state = find_group(device, limits, group); state != NVML_SUCCESS) return state;
  if (::geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
  const auto too_large = [&](unsigned long long limit) {
    return limit != kNoMemoryLimit && limit > model(device).total.count();
  };
  if (limits->softLimit > limits->hardLimit || too_large(limits->softLimit) || too_large(limits->hardLimit))
    return NVML_ERROR_INVALID_ARGUMENT;
  const bool set = Node::get()->set_limits(index_of(device), group, ration::Bytes{limits->softLimit},
                                           ration::Bytes{limits->hardLimit});
  return set ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}
RATION_NVML nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t* limits) {
  std::string group;
  if (const auto state = find_group(device, limits, group); state != NVML_SUCCESS) return state;
  const auto found = Node::get()->limits(index_of(device), group);
  limits->softLimit = found.soft.count();
  limits->hardLimit = found.hard.count();
  limits->currentUsed = found.used.count();
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
// Returns no processes, since no simulated process draws.
RATION_NVML nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_t*) {
  return answer(device, size, 0U);
}
RATION_NVML nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_t*) {
  return answer(device, size, 0U);
}
RATION_NVML nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_v1_t*) {
  return answer(device, size, 0U);
}
// Returns no processes, since a simulated node has no MPS server.
RATION_NVML nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_t*) {
  return answer(device, size, 0U);
}
RATION_NVML nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_t*) {
  return answer(device, size, 0U);
}
RATION_NVML nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int* size, nvmlProcessInfo_v1_t*) {
  return answer(device, size, 0U);
}
