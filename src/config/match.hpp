// Determines the tenant and policy of a workload. Used by the daemon when a workload registers. Relies on the caller,
// which has verified the requester's identity.
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

/// Returns the tenant to charge. A requested tenant has to be configured (else E1801) and to accept the subject: its
/// match fits, it has no match, or the subject is root (else E1502). The user's own name is accepted, too; if no tenant
/// is configured, so is every valid name (else E1409) except another user's, which only operators may take (else
/// E1502). Without a request, returns the first tenant with a match that fits, else the default tenant, else the user's
/// own name (`user:NAME` if a tenant has that name).
[[nodiscard]] Result<Assignment> tenant_for(const Configuration& configuration, const Subject& subject);

/// Returns the first policy that fits; nullptr if none does.
[[nodiscard]] const Policy* policy_for(const Configuration& configuration, const Subject& subject);

/// Returns the first device entry that fits a GPU; nullptr if none does.
[[nodiscard]] const DeviceRule* device_for(const Configuration& configuration, int index, const std::string& uuid,
                                           const std::string& name);

/// Returns true if the subject fits; an empty match fits everything.
[[nodiscard]] bool fits(const Match& match, const Subject& subject);

}  // namespace ration::config
