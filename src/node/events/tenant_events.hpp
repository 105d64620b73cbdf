// How a change of a tenant's numbers is told.
#pragma once

#include "history/sample.hpp"
#include "node/state/tenants.hpp"

namespace ration::node {

[[nodiscard]] history::Event tenant_changed_event(const TenantChange& change);

}  // namespace ration::node
