// What graphs offer to the other hooks. Used inside shim/hooks only.
#pragma once

namespace ration::shim {

/// Reads what the devices' graph pools reserve and corrects the book.
void refresh_graph_pools() noexcept;
/// Has the devices' graph pools give back what no graph uses now.
void trim_graph_pools() noexcept;

}  // namespace ration::shim
