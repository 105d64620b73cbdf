// Determines the tenant and policy of a workload. Used by the daemon when a workload registers. Pure: the caller passes
// the requester's identity and has verified it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

/// The user, program and place from which a workload starts. Unknown fields are empty, and fit no pattern.
struct Subject {
  std::string user;
  std::uint32_t uid = 0;
  std::vector<std::string> groups;
  std::string cgroup;  ///< path: /system.slice/jupyterhub.service
  std::string image;   ///< of its container
  std::map<std::string, std::string> labels;
  std::string asked_tenant;       ///< from --tenant
  bool asks_for_another = false;  ///< that is the name of another user of this machine
  bool is_operator = false;       ///< may charge any user
};

struct Assignment {
  std::string tenant;
  const Tenant* entry = nullptr;  ///< a part of the configuration, which must outlive this; nullptr: not configured
};

/// Returns the tenant to charge. If one was asked for: that tenant, if the subject fits its match, or it has none, or
/// the subject is root; else E1502, or E1801 if there is no such tenant. With no tenant in the configuration any name
/// is accepted except another user's (E1502) and an invalid one (E1409). If none was asked for: the first that fits,
/// else the default tenant, else the user's own name (`user:NAME` if a tenant has that name).
[[nodiscard]] Result<Assignment> tenant_for(const Configuration& configuration, const Subject& subject);

/// Returns the first policy that fits, or nullptr.
[[nodiscard]] const Policy* policy_for(const Configuration& configuration, const Subject& subject);

/// Returns the first device entry that fits a GPU, or nullptr.
[[nodiscard]] const DeviceRule* device_for(const Configuration& configuration, int index, const std::string& uuid,
                                           const std::string& name);

/// Returns true if the subject fits; an empty match fits everything.
[[nodiscard]] bool fits(const Match& match, const Subject& subject);

}  // namespace ration::config
