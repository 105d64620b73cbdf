// Whether a configuration can be kept on the devices that are there. Used where one is checked or taken.
#pragma once

#include <vector>

#include "config/configuration.hpp"
#include "machine/devices.hpp"

namespace ration::policy {

/// What nobody is given of the device.
[[nodiscard]] Bytes kept_free(const config::Configuration& configuration, const machine::Device& device);

/// What tenants are guaranteed, beside what is kept free, must be there on every device. A problem for each device on
/// which it is not, at the guarantee that is too much; and for what is kept free, or slices, that one device alone has
/// not. Slices beside guarantees: the daemon says so when it cuts them.
[[nodiscard]] std::vector<FileProblem> broken_promises(const config::Configuration& configuration,
                                                       const std::vector<machine::Device>& devices);

/// E1304, of the first of them.
[[nodiscard]] Error too_much(const std::vector<FileProblem>& broken);

}  // namespace ration::policy
