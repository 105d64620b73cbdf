// HTTP paths of schedules, which all users may read and operators change.
#pragma once

#include "node/request/route_host.hpp"
#include "node/tenants/schedules_requests.hpp"

namespace ration::node {

void add_schedule_routes(const AddRoute& add, RouteHost& host, const Moment& moment, Schedules& schedules);

}  // namespace ration::node
