#include "node/limits/policies.hpp"

#include "node/snapshot/config_subject.hpp"

namespace ration::node {

const config::Policy* Policies::of(const Moment& moment, const Workload& workload) {
  if (const auto known = known_.find(workload.path); known != known_.end()) return known->second;
  config::Subject subject = subject_of(workload);
  subject.asked_tenant = workload.book.tenant;
  if (const auto creator = creator_of(workload)) subject.cgroup = cgroup_of(*creator);
  return known_[workload.path] = config::policy_for(moment.configuration, subject);
}

}  // namespace ration::node
