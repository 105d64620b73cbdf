// The identity of devices: attributes, bus addresses, peers.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "card_sheet.hpp"
#include "driver.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

struct Attribute {
  int number;  // CUdevice_attribute
  int value;
};
// The attributes that all models share: architectural bounds of current devices, and what this driver can do.
constexpr Attribute kCommon[] = {{1, 1024},
                                 {2, 1024},
                                 {3, 1024},
                                 {4, 64},  // threads a block, block dimensions
                                 {5, 2147483647},
                                 {6, 65535},
                                 {7, 65535},  // grid dimensions
                                 {8, 49152},
                                 {9, 65536},
                                 {10, 32},
                                 {11, 2147483647},
                                 {12, 65536},  // shared and constant memory, warp, pitch, registers
                                 {14, 512},
                                 {15, 1},
                                 {17, 0},
                                 {19, 1},
                                 {20, 0},  // texture alignment, overlap, timeout, integrated, host maps, compute mode
                                 {21, 131072},
                                 {22, 131072},
                                 {23, 65536},
                                 {24, 16384},
                                 {25, 16384},
                                 {26, 16384},
                                 {27, 32768},
                                 {28, 32768},
                                 {29, 2048},  // textures
                                 {30, 512},
                                 {31, 1},
                                 {35, 0},
                                 {40, 3},
                                 {41, 1},  // surface alignment, concurrency, ECC, TCC, engines, unified addressing
                                 {50, 0},
                                 {51, 32},
                                 {55, 32768},
                                 {56, 131072},
                                 {57, 65536},
                                 {58, 16384},
                                 {59, 16384},
                                 {60, 16384},
                                 {69, 268435456},
                                 {70, 131072},
                                 {71, 65000},
                                 {72, 2097120},
                                 {73, 32768},
                                 {74, 32768},
                                 {77, 32768},  // PCI domain, pitch alignment, surfaces, linear and
                                               // mipmapped textures
                                 {78, 1},
                                 {79, 1},
                                 {80, 1},
                                 {82, 65536},
                                 {83, 1},
                                 {84, 0},
                                 {85, 0},
                                 {86, 0},
                                 {88, 0},
                                 {89, 1},
                                 {90, 1},
                                 {91, 1},  // priorities, caches, managed memory
                                 {92, 1},
                                 {93, 1},
                                 {94, 1},
                                 {95, 1},
                                 {96, 0},
                                 {99, 1},
                                 {100, 0},
                                 {101, 0},
                                 {102, 1},
                                 {103, 1},
                                 {104, 0},
                                 {105, 0},  // launches, registration, VMM
                                 {107, 0},
                                 {110, 0},
                                 {112, 0},
                                 {113, 0},
                                 {115, 1},
                                 {116, 0},
                                 {119, 1},
                                 {121, 0},
                                 {122, 1},
                                 {123, 1},
                                 {124, 0},
                                 {125, 0},
                                 {128, 0},
                                 {129, 1},
                                 {130, 0},
                                 {131, -1},
                                 {132, 0},
                                 {133, 0},
                                 {134, 0}};

/// The resources of a multiprocessor by compute capability (CUDA C++ programming guide: technical specifications,
/// throughput of arithmetic instructions).
struct Multiprocessor {
  int capability;  ///< the first compute capability with these values; 75 is 7.5
  int threads, blocks;
  int shared_bytes, reserved_bytes;  ///< all shared memory; the part that the system reserves in each block
  int single_to_double;
};
constexpr Multiprocessor kMultiprocessors[] = {
    {120, 1536, 24, 102400, 1024, 64}, {90, 2048, 32, 233472, 1024, 2}, {89, 1536, 24, 102400, 1024, 64},
    {86, 1536, 16, 102400, 1024, 64},  {80, 2048, 32, 167936, 1024, 2}, {75, 1024, 16, 65536, 0, 32},
    {0, 2048, 32, 98304, 0, 2},
};

const Multiprocessor& multiprocessor_of(const Model& model) {
  const int capability = 10 * model.capability_major + model.capability_minor;
  return *std::find_if(std::begin(kMultiprocessors), std::end(kMultiprocessors),
                       [&](const Multiprocessor& each) { return each.capability <= capability; });
}

/// The facts from which attributes are computed.
struct Described {
  const Model& model;
  const CardSheet& sheet;
  const Multiprocessor& multiprocessor;

  [[nodiscard]] const Clocks& clocks() const { return sheet.rated.graphics != 0 ? sheet.rated : sheet.highest; }
  [[nodiscard]] int l2() const { return 1024 * static_cast<int>(sheet.l2_kib); }
  [[nodiscard]] bool is_ampere() const { return model.capability_major >= 8; }
  [[nodiscard]] bool is_hopper() const { return model.capability_major >= 9; }
};

struct ComputedAttribute {
  int number;
  int (*value)(const Described&);
};

constexpr int kKilo = 1000, kWindow = 134213632;

/// The attributes that differ from model to model.
constexpr ComputedAttribute kComputed[] = {
    {13, [](const Described& it) { return kKilo * static_cast<int>(it.clocks().graphics); }},  // kHz
    {16, [](const Described& it) { return it.model.multiprocessors; }},
    {18, [](const Described& it) { return it.model.memory_info ? 0 : 1; }},  // integrated: uses the host's memory
    {32, [](const Described& it) { return it.sheet.ecc == Ecc::kOn ? 1 : 0; }},
    {36, [](const Described& it) { return kKilo * static_cast<int>(it.clocks().memory); }},
    {37, [](const Described& it) { return static_cast<int>(it.sheet.bus_width); }},
    {38, [](const Described& it) { return it.l2(); }},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, [](const Described& it) { return it.multiprocessor.threads; }},
    {75, [](const Described& it) { return it.model.capability_major; }},
    {76, [](const Described& it) { return it.model.capability_minor; }},
    {81, [](const Described& it) { return it.multiprocessor.shared_bytes; }},
    {87, [](const Described& it) { return it.multiprocessor.single_to_double; }},
    {97,  // the most shared memory that a block can opt in to
     [](const Described& it) { return it.multiprocessor.shared_bytes - it.multiprocessor.reserved_bytes; }},
    {106, [](const Described& it) { return it.multiprocessor.blocks; }},
    {108, [](const Described& it) { return it.is_ampere() ? it.l2() / 4 * 3 : 0; }},  // persisting L2
    {109, [](const Described& it) { return it.is_ampere() ? kWindow : 0; }},          // access-policy window
    {111, [](const Described& it) { return it.multiprocessor.reserved_bytes; }},
    {114, [](const Described&) { return 1; }},
    {120, [](const Described& it) { return it.is_hopper() ? 1 : 0; }},  // cluster launch
    {126, [](const Described& it) { return it.is_hopper() ? 4 : 1; }},
    {127, [](const Described& it) { return it.is_hopper() ? 1 : 0; }},
};

/// Returns a computed attribute, or nullopt if it is the same for every model or unknown.
std::optional<int> of_model(const Model& model, int number) {
  const auto found = std::find_if(std::begin(kComputed), std::end(kComputed),
                                  [&](const ComputedAttribute& each) { return each.number == number; });
  if (found == std::end(kComputed)) return std::nullopt;
  return found->value({model, attributes_sheet_of(model), multiprocessor_of(model)});
}

const Model& model_of(int device) { return Node::get()->models()[static_cast<std::size_t>(device)]; }
int bus_of(int device) { return model_of(device).card + 1; }

CUresult check(CUdevice ordinal, const void* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return node_device(ordinal) >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

RATION_ENTRY cuDeviceGetAttribute(int* out, CUdevice_attribute attribute, CUdevice ordinal) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (const CUresult state = check(ordinal, out); state != CUDA_SUCCESS) return state;
  const int device = node_device(ordinal), number = static_cast<int>(attribute);
  if (number == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) return *out = bus_of(device), CUDA_SUCCESS;
  if (number == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) return *out = 0, CUDA_SUCCESS;
  *out = 0;
  if (const auto own = of_model(model_of(device), number)) return *out = *own, CUDA_SUCCESS;
  for (const Attribute& entry : kCommon) {
    if (entry.number == number) return *out = entry.value, CUDA_SUCCESS;
  }
  // An attribute that the driver knows but does not simulate is 0, as on a device without the feature.
  return number > 0 && number < 138 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RATION_ENTRY cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (const CUresult state = check(ordinal, major); state != CUDA_SUCCESS || minor == nullptr)
    return state != CUDA_SUCCESS ? state : CUDA_ERROR_INVALID_VALUE;
  *major = model_of(node_device(ordinal)).capability_major;
  *minor = model_of(node_device(ordinal)).capability_minor;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceGetPCIBusId(char* out, int size, CUdevice ordinal) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (const CUresult state = check(ordinal, out); state != CUDA_SUCCESS) return state;
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", bus_of(node_device(ordinal)));
  if (size <= static_cast<int>(std::strlen(text))) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, text, std::strlen(text) + 1);
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceGetByPCIBusId(CUdevice* out, const char* text) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned int domain = 0, bus = 0, slot = 0;
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
      (domain = 0, std::sscanf(text, "%x:%x", &bus, &slot)) != 2)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t ordinal = 0; ordinal < driver().visible.size(); ++ordinal) {
    if (domain != 0 || slot != 0 || bus_of(driver().visible[ordinal]) != static_cast<int>(bus)) continue;
    *out = static_cast<CUdevice>(ordinal);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

RATION_ENTRY cuDeviceCanAccessPeer(int* out, CUdevice device, CUdevice peer) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (const CUresult state = check(device, out); state != CUDA_SUCCESS) return state;
  if (node_device(peer) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *out = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceGetP2PAttribute(int* out, int attribute, CUdevice device, CUdevice peer) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (const CUresult state = check(device, out); state != CUDA_SUCCESS) return state;
  if (node_device(peer) < 0 || device == peer) return CUDA_ERROR_INVALID_DEVICE;
  *out = attribute == 2 ? 1 : 0;  // attribute 2 is access, which is supported; ranks, native atomics and arrays are not
  return attribute >= 1 && attribute <= 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

RATION_ENTRY cuDeviceTotalMem(unsigned int* out, CUdevice ordinal) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (const CUresult state = check(ordinal, out); state != CUDA_SUCCESS) return state;
  const std::uint64_t total = model_of(node_device(ordinal)).total.count();
  *out = static_cast<unsigned int>(std::min<std::uint64_t>(total, 0xffffffff));  // the old interface ends at 4 GiB
  return CUDA_SUCCESS;
}

RATION_ENTRY cuDeviceGetExecAffinitySupport(int* out, int, CUdevice ordinal) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (const CUresult state = check(ordinal, out); state != CUDA_SUCCESS) return state;
  *out = 0;
  return CUDA_SUCCESS;
}
