#include "node/tenants/tenants.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/say.hpp"
#include "node/state/whole_number.hpp"

namespace ration::node {

using nlohmann::json;

Tenants::Tenants(std::string file) : file_(std::move(file)) {
  const auto read = [](const json& entry) { return Override{entry.at("text"), entry.at("by"), entry.at("over")}; };
  file_.read(fixed<"state.tenants_lost">(), [&](const json& document) {
    if (!document.is_object()) throw std::invalid_argument("it is not an object");
    std::map<std::string, Overrides> found;
    for (const auto& [name, entry] : document.items()) {
      found[name] = {read(entry.at("limit")), read(entry.at("guarantee")),
                     whole_number<std::uint64_t>(entry.at("changes"))};
    }
    overrides_ = std::move(found);
  });
}

Result<void> Tenants::save() {
  const auto write = [](const Override& set) {
    return json{{"text", set.text}, {"by", set.by}, {"over", set.base_text}};
  };
  json document = json::object();
  for (const auto& [name, overrides] : overrides_)
    document[name] = {
        {"limit", write(overrides.limit)}, {"guarantee", write(overrides.guarantee)}, {"changes", overrides.changes}};
  return file_.write(document);
}

const TenantStatus* Tenants::find(const std::string& name) const {
  const auto found =
      std::find_if(now_.begin(), now_.end(), [&](const TenantStatus& each) { return each.name == name; });
  return found == now_.end() ? nullptr : &*found;
}

bool Tenants::apply(TenantStatus& tenant) {
  const auto found = overrides_.find(tenant.name);
  if (found == overrides_.end()) return false;
  Overrides& overrides = found->second;
  tenant.changes = overrides.changes;
  bool forgot = false;
  const auto replaces = [&](Override& set, const std::string& text) {
    if (set.text.empty()) return false;
    if (set.base_text == text) return true;
    set = {};
    forgot = true;
    return false;
  };
  if (replaces(overrides.limit, tenant.limit.text)) {
    tenant.limit.text = overrides.limit.text;
    tenant.limit_from = overrides.limit.by;
    tenant.limit_by_schedule = false;
  }
  if (replaces(overrides.guarantee, tenant.guarantee.text)) {
    tenant.guarantee.text = overrides.guarantee.text;
    tenant.guarantee_from = overrides.guarantee.by;
  }
  return forgot;
}

std::vector<TenantChange> Tenants::update(const config::Configuration& configuration,
                                          const ScheduledLimits& scheduled) {
  const std::vector<TenantStatus> before = std::exchange(now_, {});
  base_.clear();
  bool forgot = false;
  for (const config::Tenant& tenant : configuration.tenants) {
    TenantStatus entry;
    entry.name = tenant.name.value;
    entry.limit = tenant.limit.value;
    entry.limit_from = tenant.limit.origin.text();
    entry.guarantee = tenant.guarantee.value;
    entry.guarantee_from = tenant.guarantee.origin.text();
    entry.priority = tenant.priority.value;
    entry.soft = tenant.soft.value;
    if (const auto hour = scheduled.find(entry.name); hour != scheduled.end()) {
      entry.limit = hour->second.value;
      entry.limit_from = "schedule of " + hour->second.origin.text();
      entry.limit_by_schedule = true;
    }
    base_.push_back(entry);
    forgot = apply(entry) || forgot;
    now_.push_back(std::move(entry));
  }
  if (forgot) (void)save();  // ignores a failure: after a restart, it is forgotten again
  std::vector<TenantChange> changes;
  for (const TenantStatus& old : before) {
    const TenantStatus* fresh = find(old.name);
    if (fresh != nullptr && fresh->limit.text != old.limit.text)
      changes.push_back(
          {old.name, "limit", old.limit.text, fresh->limit.text, fresh->limit_from, {}, fresh->limit_by_schedule});
  }
  return changes;
}

Result<std::vector<TenantChange>> Tenants::change(const std::string& name, const std::string& limit,
                                                  const std::string& guarantee, const std::string& by) {
  std::vector<TenantChange> changes;
  const std::map<std::string, Overrides> before = overrides_;
  for (std::size_t i = 0; i < base_.size(); ++i) {
    if (base_[i].name != name) continue;
    Overrides& overrides = overrides_[name];
    if (!limit.empty()) {
      changes.push_back({name, "limit", now_[i].limit.text, limit, by});
      overrides.limit = {limit, by, base_[i].limit.text};
    }
    if (!guarantee.empty()) {
      changes.push_back({name, "guarantee", now_[i].guarantee.text, guarantee, by});
      overrides.guarantee = {guarantee, by, base_[i].guarantee.text};
    }
    ++overrides.changes;
    if (auto saved = save(); !saved) {
      overrides_ = before;
      return tl::unexpected(saved.error());
    }
    now_[i] = base_[i];
    (void)apply(now_[i]);
  }
  return changes;
}

}  // namespace ration::node
