// HTTP paths of claims, for operators and cluster engines.
#pragma once

#include "node/promises/claims_requests.hpp"
#include "node/promises/device_publisher.hpp"
#include "node/request/route_host.hpp"
#include "node/tenants/allowed_tenants.hpp"

namespace ration::node {

void add_claim_routes(const AddRoute& add, RouteHost& host, ClaimSubjects node, AllowedTenants& allowed,
                      DevicePublisher& publisher);

}  // namespace ration::node
