// What a card tells of itself beside its memory: its data sheet, as NVML and the driver's
// attributes tell it.
#pragma once

#include <string_view>

#include "node_spec.hpp"

namespace ration::sim {

enum class Ecc { kNone, kOff, kOn };

/// Clocks in MHz. 0 where nothing public says it: NVML then answers "not supported".
struct Clocks {
  unsigned graphics = 0, memory = 0, video = 0;
};

/// The clocks that may be set for graphics while the memory has its own: from the highest down in steps.
struct ClockRange {
  unsigned memory = 0, highest = 0, lowest = 0;
};
inline constexpr unsigned kClockStep = 15;

struct CardSheet {
  std::string_view name;              ///< of the card, as the driver calls it
  std::string_view vbios{}, board{};  ///< the version of its firmware, the number of its board
  unsigned pci_device = 0, pci_subsystem = 0;
  unsigned watts = 0, least_watts = 0;  ///< the limit, which is the greatest, too; and the least that can be set
  unsigned idle_milliwatts = 0;
  Clocks highest{}, idle{}, application{};
  ClockRange supported[2]{};  ///< by the memory's clock, the highest first
  int idle_state = 0;         ///< of performance: P0, P8
  unsigned bus_width = 0;
  unsigned bar1_mib = 0;
  Ecc ecc = Ecc::kNone;
  unsigned shutdown = 0, slowdown = 0, operating = 0;  ///< temperatures, °C
  unsigned fans = 0, fan_percent = 0;
};

/// Of a card that is not listed: what every card has.
[[nodiscard]] const CardSheet& sheet_of(const Model& model);

}  // namespace ration::sim
