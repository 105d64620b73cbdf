// The systemd unit of the machine's daemon: where it lies, and whether it is there.
#pragma once

#include <string>

namespace ration::cli {

/// The unit that `ration service install` writes.
inline constexpr const char* kMachineUnit = "/etc/systemd/system/rationd.service";

/// Returns the unit that a package has installed; empty if there is none.
[[nodiscard]] std::string packaged_unit();

/// Returns true if the machine's daemon can be started as a unit.
[[nodiscard]] bool has_machine_unit();

}  // namespace ration::cli
