// Determines the tenant and policy of a workload. Used by the daemon when a workload registers. The caller must have
// verified the identity of the user.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

/// The user, program and place that start a workload. An unknown field is empty and fits no pattern.
struct Subject {
  std::string user;
  std::uint32_t uid = 0;
  std::vector<std::string> groups;
  std::string cgroup;  ///< its path: /system.slice/jupyterhub.service
  std::string image;   ///< image of its container
  std::map<std::string, std::string> labels;
  std::string asked_tenant;       ///< the value of --tenant
  bool asks_for_another = false;  ///< true if `asked_tenant` is the name of another user of this machine
  bool is_operator = false;       ///< true for a user who may charge any user
};

struct Assignment {
  std::string tenant;
  const Tenant* entry = nullptr;  ///< the configured tenant, which the configuration owns; nullptr if not configured
};

/// Returns the tenant to charge. If the subject names none (--tenant): the first tenant whose match fits, else the
/// default tenant, else the user's own name, as `user:NAME` if a tenant has that name. A tenant that the subject names:
/// - the user's own name: accepted.
/// - a configured tenant: accepted if the tenant has no match, if its match fits, or for root; else fails with E1502.
/// - any other name: fails with E1801 if a tenant is configured. If no tenant is configured: fails with E1502 if the
///   name is another user's and the subject is no operator; otherwise accepted.
/// - an invalid name: fails with E1409.
[[nodiscard]] Result<Assignment> tenant_for(const Configuration& configuration, const Subject& subject);

/// Returns the first policy that fits; nullptr if none does.
[[nodiscard]] const Policy* policy_for(const Configuration& configuration, const Subject& subject);

/// Returns the first device entry that fits a GPU; nullptr if none does.
[[nodiscard]] const DeviceRule* device_for(const Configuration& configuration, int index, const std::string& uuid,
                                           const std::string& name);

/// Returns true if the subject fits; an empty match fits everything.
[[nodiscard]] bool fits(const Match& match, const Subject& subject);

}  // namespace ration::config
