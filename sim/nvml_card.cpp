// NVML's answers about a GPU apart from its memory and processes: identity, clocks, power, errors, place in the
// machine. The GPU is idle: it has the clocks and power of an idle one, and no errors. Values that its sheet lacks and
// features that GPUs of its kind lack are not supported.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "card_sheet.hpp"
#include "nvml_devices.hpp"

using namespace ration::nvml;
using namespace ration::sim;

namespace {

constexpr unsigned int kMilli = 1000;

/// Writes the value for a GPU; an instance does not support it. `known` is true if the GPU has the feature and its
/// sheet has the value.
template <typename Value>
nvmlReturn_t tell(nvmlDevice_t device, Value* out, std::type_identity_t<Value> value, bool known = true) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (is_instance(device) || !known) return NVML_ERROR_NOT_SUPPORTED;
  *out = value;
  return NVML_SUCCESS;
}

/// Writes a number of the sheet. If it is 0, the number is unknown, and the query is not supported.
template <typename Number>
nvmlReturn_t tell_known(nvmlDevice_t device, Number* out, Number CardSheet::*field, Number unit = 1) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const Number number = sheet_of(model(device)).*field;
  return tell(device, out, number * unit, number != 0);
}

nvmlReturn_t tell_text(nvmlDevice_t device, char* out, unsigned int size, std::string_view CardSheet::*field) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const std::string text(sheet_of(model(device)).*field);
  return is_instance(device) || text.empty() ? NVML_ERROR_NOT_SUPPORTED : put(text, out, size);
}

bool is_geforce(nvmlDevice_t device) { return card_name(model(device)).find("GeForce") != std::string::npos; }
Ecc ecc(nvmlDevice_t device) { return sheet_of(model(device)).ecc; }
int release() { return std::atoi(Node::get()->spec().driver.release.c_str()); }

constexpr unsigned int kGraphics = 0, kSm = 1, kMemory = 2, kVideo = 3;  // nvmlClockType_t

nvmlReturn_t tell_clock(nvmlDevice_t device, unsigned int type, unsigned int* out, Clocks CardSheet::*clocks) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (type > kVideo) return NVML_ERROR_INVALID_ARGUMENT;
  const Clocks& all = sheet_of(model(device)).*clocks;
  const unsigned int clock = type == kMemory ? all.memory : type == kVideo ? all.video : all.graphics;
  return tell(device, out, clock, clock != 0);
}

/// Writes a list. An empty list means that the GPU does not support the query.
nvmlReturn_t tell_list(nvmlDevice_t device, unsigned int* count, unsigned int* out,
                       const std::vector<unsigned int>& list) {
  if (is_instance(device) || list.empty()) return NVML_ERROR_NOT_SUPPORTED;
  const unsigned int room = out != nullptr ? *count : 0;
  *count = static_cast<unsigned int>(list.size());
  if (room < list.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::copy(list.begin(), list.end(), out);
  return NVML_SUCCESS;
}

/// Writes the length of an empty list.
nvmlReturn_t tell_none(nvmlDevice_t device, unsigned int* count, bool known = true) {
  return tell(device, count, 0U, known);
}

nvmlReturn_t tell_percent(nvmlDevice_t device, unsigned int* percent, unsigned int* period, bool known = true) {
  constexpr unsigned int kPeriod = 167000;  // microseconds
  if (period == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto state = is_divided(device) ? NVML_ERROR_NOT_SUPPORTED : tell(device, percent, 0U, known);
  if (state == NVML_SUCCESS) *period = kPeriod;
  return state;
}

/// Checks that both devices exist.
nvmlReturn_t valid_pair(nvmlDevice_t one, nvmlDevice_t other, const void* out) {
  const auto state = valid(one, out);
  return state == NVML_SUCCESS ? valid(other, out) : state;
}

constexpr int kInternal = 0, kHostBridge = 30, kSystem = 50;  // nvmlGpuTopologyLevel_t

/// Returns the level between two GPUs. The GPUs of a node are below one host bridge, unless their NUMA nodes differ.
int level_between(nvmlDevice_t one, nvmlDevice_t other) {
  if (model(one).card == model(other).card) return kInternal;
  return model(one).numa == model(other).numa ? kHostBridge : kSystem;
}

/// Writes the set of processors that this process may use, since all of them are equally near to the device.
nvmlReturn_t tell_processors(nvmlDevice_t device, unsigned int size, unsigned long* out) {
  if (const auto state = tell(device, out, 0UL); state != NVML_SUCCESS) return state;
  constexpr unsigned int kBits = 64;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return NVML_ERROR_UNKNOWN;
  std::fill_n(out, size, 0UL);
  for (unsigned int cpu = 0; cpu < std::min<unsigned int>(size * kBits, CPU_SETSIZE); ++cpu)
    if (CPU_ISSET(cpu, &set)) out[cpu / kBits] |= 1UL << (cpu % kBits);
  return NVML_SUCCESS;
}

}  // namespace

// The functions about identity.
RATION_NVML nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int* out) {
  constexpr unsigned int kGeforce = 5, kRtx = 12, kNvidia = 14;
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const bool rtx = card_name(model(device)).find("NVIDIA RTX") != std::string::npos;
  return tell(device, out, is_geforce(device) ? kGeforce : rtx ? kRtx : kNvidia);
}
RATION_NVML nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int* out) {
  constexpr unsigned int kVolta = 5, kTuring = 6, kAmpere = 7, kAda = 8, kHopper = 9, kBlackwell = 10;
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const int capability = 10 * model(device).capability_major + model(device).capability_minor;
  *out = capability >= 100  ? kBlackwell
         : capability >= 90 ? kHopper
         : capability == 89 ? kAda
         : capability >= 80 ? kAmpere
         : capability >= 75 ? kTuring
                            : kVolta;
  return NVML_SUCCESS;
}
RATION_NVML nvmlDeviceGetSerial(nvmlDevice_t device, char* out, unsigned int size) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (is_instance(device) || is_geforce(device)) return NVML_ERROR_NOT_SUPPORTED;
  constexpr std::uint64_t kTwelveDigits = 1'000'000'000'000;
  char text[16];
  const auto of_card = std::hash<std::string>{}(Node::get()->card_uuid_text(index_of(device))) % kTwelveDigits;
  std::snprintf(text, sizeof text, "1%012lu", of_card);
  return put(text, out, size);
}
RATION_NVML nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* out, unsigned int size) {
  return tell_text(device, out, size, &CardSheet::vbios);
}
RATION_NVML nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char* out, unsigned int size) {
  return tell_text(device, out, size, &CardSheet::board);
}
RATION_NVML nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return tell(device, out, (static_cast<unsigned int>(model(device).card) + 1) << 8);  // its bus and device
}
RATION_NVML nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int* out) {
  if (const auto state = valid_pair(one, other, out); state != NVML_SUCCESS) return state;
  return tell(one, out, model(one).card == model(other).card ? 1 : 0);
}
RATION_NVML nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const bool is_wide = model(device).capability_major > 8 || model(device).capability_minor >= 6;
  const unsigned int each = model(device).capability_major >= 8 && is_wide ? 128 : 64;
  return tell(device, out, each * static_cast<unsigned int>(model(device).multiprocessors), !is_divided(device));
}
RATION_NVML nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return model(device).memory_info ? tell_known(device, out, &CardSheet::bus_width) : NVML_ERROR_NOT_SUPPORTED;
}
RATION_NVML nvmlDeviceGetBusType(nvmlDevice_t device, unsigned int* out) {
  constexpr unsigned int kPcie = 2;
  return tell(device, out, kPcie);
}
/// Writes the version of the firmware of the GPU's own processor. Server GPUs since Turing run that firmware. Its
/// version is the driver's.
RATION_NVML nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char* out) {
  constexpr unsigned int kSize = 0x50;
  constexpr int kFirst = 510;
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const int capability = 10 * model(device).capability_major + model(device).capability_minor;
  const bool is_there = ecc(device) == Ecc::kOn && capability >= 75 && release() >= kFirst && !is_instance(device);
  return is_there ? put(Node::get()->spec().driver.release, out, kSize) : NVML_ERROR_NOT_SUPPORTED;
}
RATION_NVML nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int* enabled, unsigned int* usual) {
  char version[0x50];
  if (enabled == nullptr || usual == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const auto state = nvmlDeviceGetGspFirmwareVersion(device, version); state != NVML_SUCCESS) return state;
  *enabled = *usual = 1;
  return NVML_SUCCESS;
}

// The functions about settings.
RATION_NVML nvmlDeviceGetDisplayMode(nvmlDevice_t device, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceGetDisplayActive(nvmlDevice_t device, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceGetAccountingMode(nvmlDevice_t device, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned int* out) {
  return tell(device, out, 4000U);
}
RATION_NVML nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int* count, unsigned int*) {
  return tell_none(device, count);
}

// The functions about errors.
RATION_NVML nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int* current, unsigned int* pending) {
  if (pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const auto state = valid(device, current); state != NVML_SUCCESS) return state;
  const auto state = tell(device, current, ecc(device) == Ecc::kOn ? 1U : 0U, ecc(device) != Ecc::kNone);
  if (state == NVML_SUCCESS) *pending = *current;
  return state;
}
RATION_NVML nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, unsigned int* out) {
  unsigned int pending = 0;
  return nvmlDeviceGetEccMode(device, out, &pending);
}
RATION_NVML nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int, int, unsigned long long* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return tell(device, out, 0ULL, ecc(device) == Ecc::kOn);
}
RATION_NVML nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, int type, int counter, int location,
                                            unsigned long long* out) {
  constexpr int kMemoryOfDevice = 2, kSram = 7;
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (location != kMemoryOfDevice && location != kSram) return NVML_ERROR_NOT_SUPPORTED;
  if (is_instance(device)) return answer(device, out, 0);
  return nvmlDeviceGetTotalEccErrors(device, type, counter, out);
}
/// Returns no retired pages. GPUs up to Turing retire pages, newer ones remap rows.
RATION_NVML nvmlDeviceGetRetiredPages(nvmlDevice_t device, int, unsigned int* count, unsigned long long*) {
  if (const auto state = valid(device, count); state != NVML_SUCCESS) return state;
  return tell_none(device, count, ecc(device) == Ecc::kOn && model(device).capability_major < 8);
}
RATION_NVML nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, int cause, unsigned int* count, unsigned long long* pages,
                                         unsigned long long*) {
  return nvmlDeviceGetRetiredPages(device, cause, count, pages);
}
RATION_NVML nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int* out) {
  return nvmlDeviceGetRetiredPages(device, 0, out, nullptr);
}
RATION_NVML nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* correctable, unsigned int* uncorrectable,
                                      unsigned int* pending, unsigned int* failed) {
  if (uncorrectable == nullptr || pending == nullptr || failed == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const auto state = valid(device, correctable); state != NVML_SUCCESS) return state;
  const auto state = tell(device, correctable, 0U, ecc(device) == Ecc::kOn && model(device).capability_major >= 8);
  if (state == NVML_SUCCESS) *uncorrectable = *pending = *failed = 0;
  return state;
}

// The functions about power, clocks and temperature.
RATION_NVML nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return tell(device, out, 1U, sheet_of(model(device)).watts != 0);
}
RATION_NVML nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* out) {
  return tell_known(device, out, &CardSheet::watts, kMilli);
}
RATION_NVML nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int* out) {
  return nvmlDeviceGetPowerManagementLimit(device, out);
}
RATION_NVML nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* out) {
  return nvmlDeviceGetPowerManagementLimit(device, out);
}
RATION_NVML nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int* least,
                                                         unsigned int* greatest) {
  if (least == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto state = nvmlDeviceGetPowerManagementLimit(device, greatest);
  return state == NVML_SUCCESS ? tell_known(device, least, &CardSheet::least_watts, kMilli) : state;
}
RATION_NVML nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* out) {
  return tell_known(device, out, &CardSheet::idle_milliwatts);
}
/// Returns the energy since the machine was started, in millijoules.
RATION_NVML nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const unsigned long long draw = sheet_of(model(device)).idle_milliwatts;
  return tell(device, out, draw * static_cast<unsigned long long>(now.tv_sec), draw != 0);
}
RATION_NVML nvmlDeviceGetPerformanceState(nvmlDevice_t device, int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return tell(device, out, sheet_of(model(device)).idle_state, sheet_of(model(device)).watts != 0);
}
RATION_NVML nvmlDeviceGetPowerState(nvmlDevice_t device, int* out) {
  return nvmlDeviceGetPerformanceState(device, out);
}
RATION_NVML nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int* out) {
  return tell_clock(device, type, out, &CardSheet::idle);
}
RATION_NVML nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int* out) {
  return tell_clock(device, type, out, &CardSheet::highest);
}
RATION_NVML nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned int type, unsigned int* out) {
  return tell_clock(device, type, out, &CardSheet::application);
}
RATION_NVML nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, unsigned int type, unsigned int* out) {
  return tell_clock(device, type, out, &CardSheet::application);
}
RATION_NVML nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, unsigned int type, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (ecc(device) != Ecc::kOn || (type != kGraphics && type != kSm)) return NVML_ERROR_NOT_SUPPORTED;
  return tell_clock(device, type, out, &CardSheet::highest);
}
RATION_NVML nvmlDeviceGetClock(nvmlDevice_t device, unsigned int type, unsigned int which, unsigned int* out) {
  switch (which) {  // nvmlClockId_t
    case 0:
      return nvmlDeviceGetClockInfo(device, type, out);
    case 1:
    case 2:
      return nvmlDeviceGetApplicationsClock(device, type, out);
    case 3:
      return nvmlDeviceGetMaxCustomerBoostClock(device, type, out);
    default:
      return NVML_ERROR_INVALID_ARGUMENT;
  }
}
RATION_NVML nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int* count, unsigned int* out) {
  if (const auto state = valid(device, count); state != NVML_SUCCESS) return state;
  std::vector<unsigned int> clocks;
  for (const ClockRange& range : sheet_of(model(device)).supported)
    if (range.memory != 0) clocks.push_back(range.memory);
  return tell_list(device, count, out, clocks);
}
RATION_NVML nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory, unsigned int* count,
                                                 unsigned int* out) {
  if (const auto state = valid(device, count); state != NVML_SUCCESS) return state;
  const auto& ranges = sheet_of(model(device)).supported;
  const auto* const found = std::find_if(std::begin(ranges), std::end(ranges), [memory](const ClockRange& range) {
    return range.memory != 0 && range.memory == memory;
  });
  if (found == std::end(ranges)) return ranges[0].memory == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_NOT_FOUND;
  std::vector<unsigned int> clocks;
  for (unsigned int clock = found->highest; clock >= found->lowest; clock -= kClockStep) clocks.push_back(clock);
  return tell_list(device, count, out, clocks);
}
RATION_NVML nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long* out) {
  constexpr unsigned long long kIdle = 1;
  return tell(device, out, kIdle);
}
RATION_NVML nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* out) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, out);
}
RATION_NVML nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long* out) {
  constexpr unsigned long long kAll = 0x1ff;
  return tell(device, out, kAll);
}
RATION_NVML nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long* out) {
  return nvmlDeviceGetSupportedClocksEventReasons(device, out);
}
RATION_NVML nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int which, unsigned int* out) {
  constexpr unsigned int CardSheet::*kThresholds[] = {&CardSheet::shutdown, &CardSheet::slowdown, nullptr,
                                                      &CardSheet::operating};  // nvmlTemperatureThresholds_t
  if (which >= std::size(kThresholds) || kThresholds[which] == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  return tell_known(device, out, kThresholds[which]);
}
RATION_NVML nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int* out) {
  return tell_known(device, out, &CardSheet::fans);
}
RATION_NVML nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return tell(device, out, sheet_of(model(device)).fan_percent, sheet_of(model(device)).fans != 0);
}
RATION_NVML nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const unsigned int fans = sheet_of(model(device)).fans;
  return fans != 0 && fan >= fans ? NVML_ERROR_INVALID_ARGUMENT : nvmlDeviceGetFanSpeed(device, out);
}

// The functions about activity. A simulated GPU reports none.
RATION_NVML nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int* percent, unsigned int* period) {
  return tell_percent(device, percent, period);
}
RATION_NVML nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int* percent, unsigned int* period) {
  return tell_percent(device, percent, period);
}
RATION_NVML nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int* percent, unsigned int* period) {
  return tell_percent(device, percent, period);
}
RATION_NVML nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int* percent, unsigned int* period) {
  return tell_percent(device, percent, period);
}
RATION_NVML nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int* sessions, unsigned int* frames,
                                      unsigned int* latency) {
  if (frames == nullptr || latency == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto state = tell(device, sessions, 0U);
  if (state == NVML_SUCCESS) *frames = *latency = 0;
  return state;
}
RATION_NVML nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned int* count, void*) {
  return tell_none(device, count);
}
RATION_NVML nvmlDeviceGetFBCStats(nvmlDevice_t device, nvmlFBCStats_t* out) {
  return tell(device, out, nvmlFBCStats_t{});
}
RATION_NVML nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned int* count, void*) {
  return tell_none(device, count);
}

// The functions about the GPU's place in the machine.
RATION_NVML nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  unsigned long long size = static_cast<unsigned long long>(sheet_of(model(device)).bar1_mib) << 20;
  // The size for an instance is its memory rounded up to a power of two (MIG user guide: 32767 MiB for 3g.20gb).
  if (is_instance(device) && size != 0) size = std::bit_ceil(model(device).total.count());
  constexpr unsigned long long kUsed = 1U << 20;
  if (size == 0) return NVML_ERROR_NOT_SUPPORTED;
  *out = {size, size - kUsed, kUsed};
  return NVML_SUCCESS;
}
/// Returns the PCIe generation: 3 for Volta and Turing, 4 for Ampere and Ada, 5 for Hopper and Blackwell servers. A
/// device that uses the host's memory is not in a slot.
RATION_NVML nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  const int major = model(device).capability_major;
  return tell(device, out, major == 7 ? 3U : major == 8 ? 4U : 5U, major >= 7 && major <= 10);
}
RATION_NVML nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* out) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, out);
}
RATION_NVML nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int* out) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, out);
}
RATION_NVML nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  return tell(device, out, 16U, model(device).memory_info);
}
RATION_NVML nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* out) {
  return nvmlDeviceGetMaxPcieLinkWidth(device, out);
}
RATION_NVML nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int* out) { return tell(device, out, 0U); }
RATION_NVML nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int size, unsigned long* out) {
  return tell_processors(device, size, out);
}
RATION_NVML nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int size, unsigned long* out, int) {
  return tell_processors(device, size, out);
}
RATION_NVML nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, int* out) {
  if (const auto state = valid_pair(one, other, out); state != NVML_SUCCESS) return state;
  return tell(one, out, level_between(one, other));
}
RATION_NVML nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, int level, unsigned int* count, nvmlDevice_t* out) {
  if (const auto state = valid(device, count); state != NVML_SUCCESS) return state;
  const unsigned int room = out != nullptr ? *count : 0;
  *count = 0;
  for (const int card : Node::get()->cards()) {
    const nvmlDevice_t other = handle_of_card(card);
    if (card == model(device).card || level_between(device, other) != level) continue;
    if (*count < room) out[*count] = other;
    ++*count;
  }
  return out != nullptr && *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
/// Answers as cuDeviceCanAccessPeer() and cuDeviceGetP2PAttribute() do: reads and writes, but no atomics and no NVLink.
RATION_NVML nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, int capability, int* out) {
  if (const auto state = valid_pair(one, other, out); state != NVML_SUCCESS) return state;
  constexpr int kRead = 0, kWrite = 1, kOverPcie = 4, kOk = 0, kNotSupported = 5;
  const bool can = capability == kRead || capability == kWrite || capability == kOverPcie;
  return tell(one, out, can ? kOk : kNotSupported);
}

/// Writes the value and the status of each field.
RATION_NVML nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* out) {
  if (const auto state = valid(device, out); state != NVML_SUCCESS) return state;
  if (count < 0) return NVML_ERROR_INVALID_ARGUMENT;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  for (nvmlFieldValue_t* field = out; field != out + count; ++field) {
    constexpr unsigned int kUnsigned = 1, kUnsignedLongLong = 3;  // nvmlValueType_t
    field->timestamp = static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
    field->latencyUsec = 0;
    field->valueType = kUnsigned;
    unsigned int least = 0;
    unsigned int* const value = &field->value.uiVal;
    constexpr unsigned int kWholeCard = 0;  // scopes of power: the GPU, its module, its memory
    if (field->scopeId != kWholeCard) {
      field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
      continue;
    }
    switch (field->fieldId) {
      case 83:  // NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION
        field->valueType = kUnsignedLongLong;
        field->nvmlReturn = nvmlDeviceGetTotalEnergyConsumption(device, &field->value.ullVal);
        break;
      case 185:  // POWER_AVERAGE, and POWER_INSTANT
      case 186:
        field->nvmlReturn = nvmlDeviceGetPowerUsage(device, value);
        break;
      case 187:  // POWER_MIN_LIMIT
        field->nvmlReturn = nvmlDeviceGetPowerManagementLimitConstraints(device, value, &least);
        break;
      case 188:  // POWER_MAX_LIMIT, DEFAULT_LIMIT, CURRENT_LIMIT, and REQUESTED_LIMIT
      case 189:
      case 190:
      case 192:
        field->nvmlReturn = nvmlDeviceGetPowerManagementLimit(device, value);
        break;
      default:
        field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
  }
  return NVML_SUCCESS;
}

// The functions about hardware other than GPUs. A simulated node has no such hardware.
RATION_NVML nvmlUnitGetCount(unsigned int* out) {
  if (!is_initialised()) return NVML_ERROR_UNINITIALIZED;
  return out != nullptr ? (*out = 0, NVML_SUCCESS) : NVML_ERROR_INVALID_ARGUMENT;
}
RATION_NVML nvmlSystemGetHicVersion(unsigned int* count, void*) { return nvmlUnitGetCount(count); }
RATION_NVML nvmlGetExcludedDeviceCount(unsigned int* out) { return nvmlUnitGetCount(out); }
RATION_NVML nvmlGetBlacklistDeviceCount(unsigned int* out) { return nvmlUnitGetCount(out); }
