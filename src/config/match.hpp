// Who a workload belongs to and what holds for it. Used by the daemon when a workload registers. Pure: the caller says
// who asks, and has verified it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace ration::config {

/// Who starts a workload, and where. What is not known is empty, and fits no pattern.
struct Subject {
  std::string user;
  std::uint32_t uid = 0;
  std::vector<std::string> groups;
  std::string cgroup;  ///< path: /system.slice/jupyterhub.service
  std::string image;   ///< of its container
  std::map<std::string, std::string> labels;
  std::string asked_tenant;       ///< --tenant
  bool asks_for_another = false;  ///< that is the name of another user of this machine
  bool is_operator = false;       ///< who may charge any user
};

struct Assignment {
  std::string tenant;
  const Tenant* entry =
      nullptr;  ///< in the configuration, which has to outlive it; nullptr: nothing is said of it there
};

/// Who is charged. Asked for: that one, if the subject fits its match, or it has none, or the subject is root; E1502 if
/// not, E1801 if there is no such tenant (with no tenant at all in the configuration any name will do, but that of
/// another user: E1502; E1409 if it is no name). Not asked for: the first that fits, else the default tenant, else the
/// user's own name
/// (`user:NAME` if a tenant has that name).
[[nodiscard]] Result<Assignment> tenant_for(const Configuration& configuration, const Subject& subject);

/// The first policy that fits; nullptr: none.
[[nodiscard]] const Policy* policy_for(const Configuration& configuration, const Subject& subject);

/// The first device entry that fits a GPU; nullptr: none.
[[nodiscard]] const DeviceRule* device_for(const Configuration& configuration, int index, const std::string& uuid,
                                           const std::string& name);

/// Whether the subject fits; a match in which nothing is written fits everybody.
[[nodiscard]] bool fits(const Match& match, const Subject& subject);

}  // namespace ration::config
