// The cards that `ration plan` knows by name, so that a plan needs no GPU. Used by the plan only: on a machine the
// driver says what its devices have.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace ration::node {

struct DeviceModel {
  const char* name;
  Bytes usable;  ///< what programs can have together, contexts included: the driver's own part is off
};

/// The names are those of the simulated node (sim/README.md). The sizes are what the CUDA driver reports as the total
/// (cuMemGetInfo), below what is sold, as quoted by PyTorch's out-of-memory message ("GPU 0 has a total capacity of …")
/// in public bug reports: T4 14.56 GiB, A30 23.53, A100-40 39.39, 80 GB cards 79.14 to 79.25, H200 139.80. Drivers and
/// ECC change them by a percent or two; where reports differ the smallest stands here.
[[nodiscard]] const std::vector<DeviceModel>& device_models();

/// Null: none of that name.
[[nodiscard]] const DeviceModel* find_model(const std::string& name);

}  // namespace ration::node
