#include "config/match.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"

namespace ration::config {
namespace {

using Patterns = Sourced<std::vector<std::string>>;

bool any_fits(const Patterns& patterns, const std::string& text) {
  return !text.empty() && std::any_of(patterns.value.begin(), patterns.value.end(),
                                      [&](const std::string& pattern) { return fits(pattern, text); });
}

/// Returns true if a pattern fits one folder of the cgroup's path, with or without its ending: `jupyterhub` fits
/// /system.slice/jupyterhub.service/x.
bool service_fits(const Patterns& patterns, const std::string& cgroup) {
  const auto parts = split(cgroup, '/');
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view unit) {
    return any_fits(patterns, std::string(unit)) || any_fits(patterns, std::string(unit.substr(0, unit.rfind('.'))));
  });
}

std::vector<bool> answers(const Match& match, const Subject& subject) {
  std::vector<bool> all;
  const auto written = [](const Patterns& patterns) { return !patterns.origin.is_default(); };
  if (written(match.users)) all.push_back(any_fits(match.users, subject.user));
  if (written(match.groups)) {
    all.push_back(std::any_of(subject.groups.begin(), subject.groups.end(),
                              [&](const std::string& group) { return any_fits(match.groups, group); }));
  }
  if (written(match.cgroup)) all.push_back(any_fits(match.cgroup, subject.cgroup));
  if (written(match.service)) all.push_back(service_fits(match.service, subject.cgroup));
  if (written(match.image)) all.push_back(any_fits(match.image, subject.image));
  for (const auto& [name, patterns] : match.labels) {
    const auto label = subject.labels.find(name);
    all.push_back(label != subject.labels.end() && any_fits(patterns, label->second));
  }
  return all;
}

bool is_open(const Match& match) { return answers(match, {}).empty(); }

bool may_be(const Tenant& tenant, const Subject& subject) {
  return subject.uid == 0 || is_open(tenant.match) || fits(tenant.match, subject);
}

const Tenant* find(const Configuration& configuration, const std::string& name) {
  for (const Tenant& tenant : configuration.tenants) {
    if (tenant.name.value == name) return &tenant;
  }
  return nullptr;
}

/// Returns the user's name as a tenant's name, or `user:NAME` if a configured tenant has that name.
std::string own_name(const Configuration& configuration, const Subject& subject) {
  const std::string name = is_name(subject.user) ? subject.user : fmt::format("uid-{}", subject.uid);
  return find(configuration, name) == nullptr ? name : "user:" + name;
}

Result<Assignment> asked_for(const Configuration& configuration, const Subject& subject) {
  const std::string& name = subject.asked_tenant;
  if (!is_name(name)) return not_a_name(name);
  if (const Tenant* tenant = find(configuration, name)) {
    if (may_be(*tenant, subject)) return Assignment{name, tenant};
    std::vector<std::string> open;
    for (const Tenant& other : configuration.tenants) {
      if (may_be(other, subject)) open.push_back(other.name.value);
    }
    return fail("E1502",
                fmt::format("{} may not run as tenant {} ({}).", subject.user.empty() ? "this user" : subject.user,
                            name, tenant->name.origin.text()),
                open.empty() ? "Leave --tenant out." : fmt::format("Leave --tenant out, or: --tenant {}", open.front()),
                5);
  }
  if (name == own_name(configuration, subject)) return Assignment{name, nullptr};
  if (configuration.tenants.empty()) {
    // A workload without a tenant is charged to its user's name, so no other user may choose that name.
    if (!subject.asks_for_another || subject.is_operator || subject.uid == 0) return Assignment{name, nullptr};
    return fail("E1502",
                fmt::format("{} may not run as tenant {}: that is the name of another user of this machine.",
                            subject.user.empty() ? "this user" : subject.user, name),
                "Leave --tenant out, or give a name that is not a user's.", 5);
  }
  std::vector<std::string> names;
  for (const Tenant& tenant : configuration.tenants) names.push_back(tenant.name.value);
  return fail("E1801", fmt::format("there is no tenant '{}'.{}", name, suggestion(name, names)),
              fmt::format("Known: {}", fmt::join(names, ", ")), 3);
}

}  // namespace

bool fits(const Match& match, const Subject& subject) {
  const auto all = answers(match, subject);
  const auto yes = [](bool answer) { return answer; };
  if (match.any.value && !all.empty()) return std::any_of(all.begin(), all.end(), yes);
  return std::all_of(all.begin(), all.end(), yes);
}

Result<Assignment> tenant_for(const Configuration& configuration, const Subject& subject) {
  if (!subject.asked_tenant.empty()) return asked_for(configuration, subject);
  for (const Tenant& tenant : configuration.tenants) {
    if (!is_open(tenant.match) && fits(tenant.match, subject)) return Assignment{tenant.name.value, &tenant};
  }
  const std::string& standard = configuration.defaults.tenant.value;
  if (!standard.empty()) return Assignment{standard, find(configuration, standard)};
  return Assignment{own_name(configuration, subject), nullptr};
}

const Policy* policy_for(const Configuration& configuration, const Subject& subject) {
  for (const Policy& policy : configuration.policies) {
    if (fits(policy.match, subject)) return &policy;
  }
  return nullptr;
}

const DeviceRule* device_for(const Configuration& configuration, int index, const std::string& uuid,
                             const std::string& name) {
  for (const DeviceRule& device : configuration.devices) {
    const std::string& pattern = device.match.value;
    if (fits(pattern, std::to_string(index)) || fits(pattern, uuid) || fits(pattern, name)) return &device;
  }
  return nullptr;
}

}  // namespace ration::config
