// The rules of tenants. `engine/rules.cpp` declares when they run.
#pragma once

#include <memory>

#include "node/tenants/tenants.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

/// Applies the limits that schedules set for tenants at this hour.
std::unique_ptr<Rule> schedule_rule(Tenants& tenants, const Schedules& schedules);
/// Warns of tenants above their soft limit.
std::unique_ptr<Rule> soft_limit_rule(const Tenants& tenants);

}  // namespace ration::node
