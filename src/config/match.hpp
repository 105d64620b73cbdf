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
  bool asks_for_another = false;  ///< true if that is the name of another user of this machine
  bool is_operator = false;       ///< true for a user who may charge any user
};

struct Assignment {
  std::string tenant;
  const Tenant* entry = nullptr;  ///< the configured tenant, which the configuration owns; nullptr if not configured
};

/// Returns the tenant to charge. Without a request (--tenant), returns the first tenant with a match that fits, else
/// the default tenant, else the user's own name (`user:NAME` if a tenant has that name). A user may request a
/// configured tenant that has no match or whose match fits, and root may request every configured tenant; else fails
/// with E1502. The user's own name is always accepted. If no tenant is configured, every other name is accepted, too,
/// except the name of another user, which only operators may request; else fails with E1502. Fails with E1409 for an
/// invalid name, and with E1801 if other tenants are configured, but not this one.
[[nodiscard]] Result<Assignment> tenant_for(const Configuration& configuration, const Subject& subject);

/// Returns the first policy that fits; nullptr if none does.
[[nodiscard]] const Policy* policy_for(const Configuration& configuration, const Subject& subject);

/// Returns the first device entry that fits a GPU; nullptr if none does.
[[nodiscard]] const DeviceRule* device_for(const Configuration& configuration, int index, const std::string& uuid,
                                           const std::string& name);

/// Returns true if the subject fits; an empty match fits everything.
[[nodiscard]] bool fits(const Match& match, const Subject& subject);

}  // namespace ration::config
