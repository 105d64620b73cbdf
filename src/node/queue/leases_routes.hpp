// HTTP paths of the queue.
#pragma once

#include "node/promises/promises.hpp"
#include "node/queue/leases.hpp"
#include "node/request/route_host.hpp"
#include "node/tenants/schedules.hpp"

namespace ration::node {

void add_lease_routes(const AddRoute& add, RouteHost& host, const Moment& moment, Leases& leases,
                      const DevicePromises& promises, const Schedules& schedules);

}  // namespace ration::node
