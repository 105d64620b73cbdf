// The data sheets of GPUs, without the size of their memory, as NVML and the driver's attributes report them.
#pragma once

#include <string_view>

#include "node_spec.hpp"

namespace ration::sim {

enum class Ecc { kNone, kOff, kOn };

/// Clocks in MHz. 0 means not published; NVML then answers "not supported".
struct Clocks {
  unsigned graphics = 0, memory = 0, video = 0;
};

/// The graphics clocks that may be set at one memory clock: from the highest down to the lowest in steps of kClockStep.
struct ClockRange {
  unsigned memory = 0, highest = 0, lowest = 0;
};
inline constexpr unsigned kClockStep = 15;

struct CardSheet {
  std::string_view name;              ///< the driver's name of the GPU
  std::string_view vbios{}, board{};  ///< the version of its firmware, the number of its board
  unsigned pci_device = 0, pci_subsystem = 0;
  unsigned watts = 0, least_watts = 0;  ///< the default power limit, also the highest; the lowest
  unsigned idle_milliwatts = 0;
  Clocks highest{}, idle{}, application{};
  Clocks rated{};             ///< the clocks in the driver's attributes, if they differ from the highest clocks
  ClockRange supported[2]{};  ///< one per memory clock, the highest first
  int idle_state = 0;         ///< the idle performance state, such as 8 for P8
  unsigned bus_width = 0;
  unsigned l2_kib = 0;
  unsigned bar1_mib = 0;
  Ecc ecc = Ecc::kNone;
  unsigned shutdown = 0, slowdown = 0, operating = 0;  ///< temperatures in °C
  unsigned fans = 0, fan_percent = 0;
};

/// Returns the sheet of a GPU. For an unlisted GPU, returns a sheet with only the values that every GPU has.
[[nodiscard]] const CardSheet& sheet_of(const Model& model);

/// Returns the sheet for the driver's attributes, which always have a value. An unlisted GPU gets the sheet of an A100,
/// because it also has the compute capability of an A100.
[[nodiscard]] const CardSheet& attributes_sheet_of(const Model& model);

}  // namespace ration::sim
