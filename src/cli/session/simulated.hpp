// What a program needs beside the simulated driver: the simulated CUDA runtime, of whichever version it asks for.
// Used by every verb with --sim.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

/// The folder of the simulated driver that RATION_SIM describes, in the simulator's own: with the names that its
/// release has where `driver=` names one of sim/drivers, else with every name.
[[nodiscard]] std::string simulated_driver_folder(const std::string& simulator);

struct SimulatedLibraries {
  std::vector<std::string> preload;  ///< files to put in front of NVIDIA's, in this order
  std::vector<std::string> folders;  ///< where the rest of the program's CUDA libraries lie
  std::string found;                 ///< for people: which version, and where it was seen
};

/// `program`: as typed; may be empty. `versions`: `auto` (every version, since the program may be a launcher of others;
/// in front the one that lies beside its Python, or in the current environment), `none`, or major versions: `12`,
/// `12,13`. E1425: that version is not simulated. E1426: no such version.
[[nodiscard]] Result<SimulatedLibraries> simulated_libraries(const std::string& driver_folder,
                                                             const std::string& program, const std::string& versions);

}  // namespace ration::cli
