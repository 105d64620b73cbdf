// The configuration of one container as runc, crun, youki and `ctr run --config` take it (OCI runtime specification
// 1.0, config.json), with what puts the container under a limit: the same that the CDI specification of the device has.
// Used by `ration inject oci`. Promises: a second time changes nothing; another device replaces the first one; what
// else stands in it stays.
#pragma once

#include <string>

#include "adapters/containers/cdi.hpp"
#include "base/result.hpp"

namespace ration::adapters {

/// `configuration` with these edits, as JSON. E1710: it is no such configuration, or one of a container whose limit
/// would not hold.
[[nodiscard]] Result<std::string> with_edits(const std::string& configuration, const cdi::Device& device,
                                             const cdi::Edits& edits);

}  // namespace ration::adapters
