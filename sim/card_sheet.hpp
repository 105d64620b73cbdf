// The data sheet of a card beside its memory, as NVML and the driver's attributes report it.
#pragma once

#include <string_view>

#include "node_spec.hpp"

namespace ration::sim {

enum class Ecc { kNone, kOff, kOn };

/// Clocks in MHz. 0: not published; NVML then answers "not supported".
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
  unsigned watts = 0, least_watts = 0;  ///< the limit, which is also the highest, and the lowest that can be set
  unsigned idle_milliwatts = 0;
  Clocks highest{}, idle{}, application{};
  Clocks rated{};             ///< as the driver's attributes report them, if those are not the highest
  ClockRange supported[2]{};  ///< by the memory's clock, the highest first
  int idle_state = 0;         ///< of performance: P0, P8
  unsigned bus_width = 0;
  unsigned l2_kib = 0;
  unsigned bar1_mib = 0;
  Ecc ecc = Ecc::kNone;
  unsigned shutdown = 0, slowdown = 0, operating = 0;  ///< temperatures, °C
  unsigned fans = 0, fan_percent = 0;
};

/// Returns the card's sheet; for an unlisted card the values that every card has.
[[nodiscard]] const CardSheet& sheet_of(const Model& model);

/// Returns the sheet for the driver's attributes, which always have a value: for an unlisted card that of an A100,
/// whose compute capability such a card has.
[[nodiscard]] const CardSheet& attributes_sheet_of(const Model& model);

}  // namespace ration::sim
