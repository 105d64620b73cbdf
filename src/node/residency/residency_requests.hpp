// Requests of `ration suspend`, `resume`, `trim` and `stop`.
#pragma once

#include <string>
#include <vector>

#include "node/request/caller.hpp"
#include "node/residency/residency.hpp"

namespace ration::node {

/// Moves a workload's memory to the host until a person resumes it. Fails with E1801 or E1502, with E1546 if it is
/// suspended or moving already, with E1547 if it cannot be moved now.
[[nodiscard]] Result<void> suspend(const Moment& moment, Residency& residency, const std::string& name,
                                   const Caller& caller, Events& events);
/// Resumes a workload as soon as there is room. Fails with E1801 or E1502, and with E1546 if it is not suspended.
[[nodiscard]] Result<void> resume(const Moment& moment, Residency& residency, const std::string& name,
                                  const Caller& caller);
/// Asks the workload's co-operating programs to free unused memory. An event reports the result two seconds later.
/// Fails with E1801, E1502 or E1411.
[[nodiscard]] Result<void> trim(const Moment& moment, Residency& residency, const std::string& name,
                                const Caller& caller);

/// Sends SIGTERM to the workload's processes and their descendants or, with `kill`, SIGKILL. Fails with E1801 or E1502.
[[nodiscard]] Result<void> stop(const Moment& moment, const std::string& name, const Caller& caller, bool kill);

}  // namespace ration::node
