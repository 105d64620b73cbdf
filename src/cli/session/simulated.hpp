// Finds the simulated driver, and the simulated CUDA runtime in the version that a program asks for. Used by every verb
// with --sim.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::cli {

/// Returns the folder of the simulated driver that RATION_SIM describes. If `driver=` names a release of sim/drivers,
/// the libraries in the folder export only the functions of that release; otherwise they export every function.
[[nodiscard]] std::string simulated_driver_folder(const std::string& simulator);

struct SimulatedLibraries {
  std::vector<std::string> preload;  ///< files to put in front of NVIDIA's, in this order
  std::vector<std::string> folders;  ///< folders of the program's other CUDA libraries
  std::string found;                 ///< the version and where it was found, in words
};

/// Finds the simulated libraries for `program`, which is as typed and may be empty. `versions` is `auto`, `none`, or
/// major versions such as `12` or `12,13`. `auto` means every version, since the program may launch other programs; the
/// version of the program's own Python or of the current environment comes first. Fails with E1425 for a version that
/// is not simulated, with E1426 for a text that is no version.
[[nodiscard]] Result<SimulatedLibraries> simulated_libraries(const std::string& driver_folder,
                                                             const std::string& program, const std::string& versions);

}  // namespace ration::cli
