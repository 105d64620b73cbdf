// What graphs offer to the other hooks. Used inside shim/hooks only.
#pragma once

#include "driver/cuda_abi.hpp"

namespace ration::shim {

/// Reads what the devices' graph pools reserve and corrects the book.
void refresh_graph_pools() noexcept;
/// Has the devices' graph pools give back what no graph uses now.
void trim_graph_pools() noexcept;
/// To be called for each address that the driver has freed: it may have been an allocation that a launch left.
void graph_allocation_was_freed(cuda::CUdeviceptr address) noexcept;

}  // namespace ration::shim
