// Puts a container under a limit by changing its configuration, as runc, crun, youki and `ctr run --config` read it
// (OCI runtime specification 1.0, config.json). The changes are those of the device's CDI specification. Used by
// `ration inject oci`. Promises: a second run changes nothing; another device replaces the first one; everything else
// in the configuration stays.
#pragma once

#include <string>

#include "adapters/containers/cdi.hpp"
#include "base/result.hpp"

namespace ration::adapters {

/// Returns `configuration` with these edits, as JSON. Fails with E1710 if `configuration` is not the configuration of a
/// container, or if the limit would not hold for that container.
[[nodiscard]] Result<std::string> with_edits(const std::string& configuration, const cdi::Device& device,
                                             const cdi::Edits& edits);

}  // namespace ration::adapters
