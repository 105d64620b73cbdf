// The HTTP path that plans tenants on named hardware, or on this machine's.
#pragma once

#include "node/request/route_host.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

void add_plan_routes(const AddRoute& add, RouteHost& host, const Moment& moment);

}  // namespace ration::node
