// From checked texts to types, and to the rows that show them.
#include <algorithm>

#include "config/items.hpp"

namespace ration::config {
namespace {

/// Reads the keys of one item. A value that cannot be read stays what it is: its problem is known already.
class Values {
 public:
  explicit Values(const Item& item) : item_(item) {}

  void read(const std::string& name, Sourced<std::string>& out) const {
    take(name, out, [](const Leaf& leaf) { return Result<std::string>(leaf.value.text); });
  }
  void read(const std::string& name, Sourced<bool>& out) const {
    take(name, out, [](const Leaf& leaf) { return Result<bool>(leaf.value.text == "true"); });
  }
  void read(const std::string& name, Sourced<std::int64_t>& out) const {
    take(name, out,
         [](const Leaf& leaf) { return Result<std::int64_t>(std::strtoll(leaf.value.text.c_str(), nullptr, 10)); });
  }
  void read(const std::string& name, Sourced<Amount>& out) const {
    take(name, out, [](const Leaf& leaf) { return Result<Amount>(Amount{leaf.value.text}); });
  }
  void read(const std::string& name, Sourced<std::vector<std::string>>& out) const {
    take(name, out, [](const Leaf& leaf) {
      std::vector<std::string> texts;
      for (const TomlValue& item : leaf.value.items) texts.push_back(item.text);
      if (leaf.value.kind == TomlValue::Kind::kText) texts.push_back(leaf.value.text);
      return Result<std::vector<std::string>>(texts);
    });
  }
  void read(const std::string& name, Sourced<std::vector<AlertRule>>& out) const {
    take(name, out, [](const Leaf& leaf) {
      std::vector<AlertRule> rules;
      for (const TomlValue& item : leaf.value.items) {
        if (auto rule = parse_rule(item.text)) rules.push_back(std::move(*rule));
      }
      return Result<std::vector<AlertRule>>(rules);
    });
  }
  void read(const std::string& name, Sourced<std::chrono::nanoseconds>& out) const { parsed(name, out, parse_span); }
  void read(const std::string& name, Sourced<std::optional<std::chrono::nanoseconds>>& out) const {
    parsed(name, out, parse_span);
  }
  void read(const std::string& name, Sourced<std::optional<double>>& out) const { parsed(name, out, parse_share); }
  void read(const std::string& name, Sourced<double>& out) const { parsed(name, out, parse_activity); }
  void read(const std::string& name, Sourced<std::optional<Price>>& out) const { parsed(name, out, parse_price); }
  void read(const std::string& name, Sourced<Hours>& out) const { parsed(name, out, parse_hours); }
  void read(const std::string& name, Sourced<Days>& out) const { parsed(name, out, parse_days); }

  /// An enumeration whose values stand in the order of the key's choices.
  template <typename Choice>
  void choose(const std::string& name, Sourced<Choice>& out) const {
    take(name, out, [](const Leaf& leaf) -> Result<Choice> {
      const auto& choices = leaf.key->choices;
      const auto found = std::find(choices.begin(), choices.end(), leaf.value.text);
      if (found == choices.end()) return fail("E1601", "not a choice");
      return static_cast<Choice>(found - choices.begin());
    });
  }

  /// Everything below `set.` by its own name.
  template <typename Value>
  void read_family(const std::string& prefix, std::map<std::string, Sourced<Value>>& out) const {
    for (const auto& [name, leaf] : item_.leaves) {
      if (name.rfind(prefix, 0) == 0) read(name, out[name.substr(prefix.size())]);
    }
  }

 private:
  template <typename Value, typename Read>
  void take(const std::string& name, Sourced<Value>& out, Read how) const {
    const auto found = item_.leaves.find(name);
    if (found == item_.leaves.end()) return;
    out.origin = found->second.origin;
    if (auto value = how(found->second)) out.value = std::move(*value);
  }
  template <typename Value, typename Parse>
  void parsed(const std::string& name, Sourced<Value>& out, Parse parse) const {
    take(name, out, [&](const Leaf& leaf) { return parse(leaf.value.text); });
  }

  const Item& item_;
};

Match match_of(const Values& values) {
  Match match;
  values.read("match.users", match.users);
  values.read("match.groups", match.groups);
  values.read("match.cgroup", match.cgroup);
  values.read("match.service", match.service);
  values.read("match.image", match.image);
  values.read_family("match.label.", match.labels);
  values.read("match.any", match.any);
  return match;
}

void read_daemon(const Values& values, Daemon& daemon) {
  values.read("socket", daemon.socket);
  values.read("listen", daemon.listen);
  values.read("token_file", daemon.token_file);
  values.read("state", daemon.state);
  values.read("sample", daemon.sample);
  values.read("sample_idle", daemon.sample_idle);
  values.read("metrics_processes", daemon.metrics_processes);
}

void read_defaults(const Values& values, Defaults& defaults) {
  values.read("limit", defaults.limit);
  values.read("guarantee", defaults.guarantee);
  values.read("gpu", defaults.gpu);
  values.read("on_deny", defaults.on_deny);
  values.read("account", defaults.account);
  values.read("managed", defaults.managed);
  values.read("tenant", defaults.tenant);
  values.read("summary", defaults.summary);
  values.read("growth", defaults.growth);
  values.read("framework_hints", defaults.framework_hints);
  values.read("require_enforced", defaults.require_enforced);
  values.choose("ungoverned", defaults.ungoverned);
  values.read("grace", defaults.grace);
}

DeviceRule device_of(const Values& values) {
  DeviceRule device;
  values.read("match", device.match);
  values.read("keep_free", device.keep_free);
  values.read("slices", device.slices);
  return device;
}

Tenant tenant_of(const Values& values) {
  Tenant tenant;
  values.read("name", tenant.name);
  tenant.match = match_of(values);
  values.read("guarantee", tenant.guarantee);
  values.read("limit", tenant.limit);
  values.read("soft", tenant.soft);
  values.read("priority", tenant.priority);
  values.read("price", tenant.price);
  return tenant;
}

Policy policy_of(const Values& values) {
  Policy policy;
  policy.match = match_of(values);
  values.choose("per", policy.per);
  values.read("limit", policy.limit);
  values.read("idle.after", policy.idle.after);
  values.read("idle.below", policy.idle.below);
  values.choose("idle.action", policy.idle.action);
  return policy;
}

Schedule schedule_of(const Values& values) {
  Schedule schedule;
  values.read("when", schedule.when);
  values.read("days", schedule.days);
  values.read_family("set.", schedule.set);
  return schedule;
}

void read_report(const Values& values, Report& report) {
  values.choose("basis", report.basis);
  values.read("currency", report.currency);
  values.choose("share_idle", report.share_idle);
  values.read("retention", report.retention);
  values.read("price", report.price);
}

void add_rows(const Item& item, const std::string& name, std::vector<Row>& rows) {
  for (const Key& key : keys()) {
    if (std::string_view(item.section->name) != key.section) continue;
    for (const auto& [leaf_name, leaf] : item.leaves) {
      if (leaf.key == &key)
        rows.push_back({item.section->name, name, leaf_name, leaf.value.text, as_toml(leaf.value), leaf.origin});
    }
  }
}

}  // namespace

Configuration to_configuration(const std::vector<Item>& items) {
  Configuration all;
  for (const Section& section : sections()) {
    const std::string name = section.name;
    std::size_t number = 0;
    for (const Item& item : items) {
      if (item.section != &section) continue;
      const Values values(item);
      if (name == "daemon") read_daemon(values, all.daemon);
      if (name == "defaults") read_defaults(values, all.defaults);
      if (name == "device") all.devices.push_back(device_of(values));
      if (name == "tenant") all.tenants.push_back(tenant_of(values));
      if (name == "policy") all.policies.push_back(policy_of(values));
      if (name == "schedule") all.schedules.push_back(schedule_of(values));
      if (name == "alerts") values.read("rules", all.alerts.rules), values.read("webhook", all.alerts.webhook);
      if (name == "report") read_report(values, all.report);
      if (name == "compat") values.read("hami", all.compat_hami);
      ++number;
      add_rows(item,
               section.identity != nullptr ? item.identity
               : section.several           ? std::to_string(number)
                                           : "",
               all.rows);
    }
  }
  return all;
}

}  // namespace ration::config
