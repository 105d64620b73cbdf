// The interface of graphs to the other hooks. Used inside guard/hooks only.
#pragma once

#include "driver/cuda_abi.hpp"

namespace ration::guard {

/// Reads what the devices' graph pools reserve and corrects the book.
void refresh_graph_pools() noexcept;
/// Makes the devices' graph pools give back the memory that no graph uses now.
void trim_graph_pools() noexcept;
/// Records that the driver has freed the address. Does nothing unless a launch left an allocation there. Must be called
/// for each freed address.
void graph_allocation_was_freed(cuda::CUdeviceptr address) noexcept;

}  // namespace ration::guard
