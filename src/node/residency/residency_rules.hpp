// The rules of residency. `engine/rules.cpp` declares when they run.
#pragma once

#include <memory>

#include "node/limits/activity.hpp"
#include "node/limits/demand.hpp"
#include "node/limits/policies.hpp"
#include "node/limits/unchecked_guarantees.hpp"
#include "node/residency/residency.hpp"
#include "node/tenants/tenants.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

/// Follows suspensions and resumptions.
std::unique_ptr<Rule> suspension_rule(Residency& residency, Limits& limits, Activity& activity,
                                      UncheckedGuarantees& unchecked);
/// Reports what trim requests returned.
std::unique_ptr<Rule> trim_rule(Residency& residency);
/// Trims the other workloads on a GPU while a request for its memory waits.
std::unique_ptr<Rule> pressure_rule(Residency& residency, const Demand& demand);
/// Reports, trims or suspends idle workloads.
std::unique_ptr<Rule> idle_rule(Residency& residency, const Limits& limits, Policies& policies,
                                const Activity& activity);
/// Suspends one of several workloads that wait for each other's memory.
std::unique_ptr<Rule> standstill_rule(Residency& residency, const Limits& limits, const Tenants& tenants,
                                      Policies& policies);
/// Resumes suspended workloads once there is room.
std::unique_ptr<Rule> resume_rule(Residency& residency, Limits& limits);

}  // namespace ration::node
