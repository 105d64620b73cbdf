#include "cli/verbs/ps_tenants.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cli/text/fields.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

/// The sums of the rows of one tenant, or of the ungoverned processes, on one device.
struct TenantSum {
  std::set<json> workloads;  ///< run and name of each
  std::optional<Bytes> used{Bytes{0}};
  Bytes guarantee, peak;
  std::uint64_t denials = 0;

  void add(const json& row, bool governed) {
    const auto row_used = known_bytes(row, "used_bytes");
    used = used && row_used ? std::optional(*used + *row_used) : std::nullopt;
    if (!governed) return;
    workloads.insert(json::array({row.value("user", json()), row.value("run", json()), row.at("workload")}));
    guarantee += known_bytes(row, "guarantee_bytes").value_or(Bytes{0});
    peak += known_bytes(row, "peak_bytes").value_or(Bytes{0});
    denials += row.value("denials", std::uint64_t{0});
  }
};

json number_of(const std::optional<Bytes>& bytes) { return bytes ? json(bytes->count()) : json(nullptr); }

/// Returns the tenant's account on that device; null if there is none.
json account_on(const json& tenants, const std::string& tenant, const json& gpu) {
  for (const json& each : tenants)
    if (each.at("tenant") == tenant)
      for (const json& account : each.at("accounts"))
        if (account.at("gpu") == gpu) return account;
  return nullptr;
}

/// Returns the row of a tenant; `gpu` is null if the row is about each device.
json tenant_row(const std::string& tenant, const json& gpu, const TenantSum& sum, const json& account) {
  const bool known = account.is_object();  // without a daemon, and for clients in containers, no tenant is known
  return {{"tenant", tenant},
          {"governed", true},
          {"gpu", gpu},
          {"workloads", sum.workloads.size()},
          {"used_bytes", number_of(sum.used)},
          {"limit_bytes", known ? account.at("limit_bytes") : json(nullptr)},
          {"guarantee_bytes", known ? account.at("guarantee_bytes") : json(sum.guarantee.count())},
          {"peak_bytes", sum.peak.count()},
          {"denials", sum.denials}};
}

/// Adds a tenant without workloads.
void add_idle(json& rows, const json& tenant, const json& devices) {
  json accounts = json::array();
  for (const json& account : tenant.at("accounts"))
    if (std::ranges::any_of(devices, [&](const json& device) { return device.at("gpu") == account.at("gpu"); }))
      accounts.push_back(account);
  const bool alike = std::ranges::all_of(accounts, [&](const json& account) {
    return account.at("limit_bytes") == accounts.front().at("limit_bytes") &&
           account.at("guarantee_bytes") == accounts.front().at("guarantee_bytes");
  });
  const std::string name = tenant.at("tenant");
  if (alike && accounts.size() != 1)
    rows.push_back(tenant_row(name, nullptr, {}, accounts.empty() ? json(nullptr) : accounts.front()));
  else
    for (const json& account : accounts) rows.push_back(tenant_row(name, account.at("gpu"), {}, account));
}

}  // namespace

json sums_by_tenant(const json& rows, const json& tenants, const json& devices, bool with_idle) {
  std::map<std::pair<std::string, json>, TenantSum> sums;  // by tenant and GPU
  std::map<json, TenantSum> ungoverned;                    // by GPU
  for (const json& row : rows) {
    const bool governed = row.at("governed") == true;
    (governed ? sums[{row.at("tenant").get<std::string>(), row.at("gpu")}] : ungoverned[row.at("gpu")])
        .add(row, governed);
  }
  std::map<std::string, const json*> idle;
  if (with_idle)
    for (const json& tenant : tenants) idle[tenant.at("tenant").get<std::string>()] = &tenant;
  for (const auto& [place, sum] : sums) idle.erase(place.first);
  json found = json::array();
  for (const auto& [place, sum] : sums)
    found.push_back(tenant_row(place.first, place.second, sum, account_on(tenants, place.first, place.second)));
  for (const auto& [name, tenant] : idle) add_idle(found, *tenant, devices);
  std::ranges::stable_sort(found.get_ref<json::array_t&>(), {}, [](const json& row) -> const std::string& {
    return row.at("tenant").get_ref<const std::string&>();
  });
  for (const auto& [gpu, sum] : ungoverned)
    found.push_back({{"governed", false}, {"gpu", gpu}, {"used_bytes", number_of(sum.used)}});
  return found;
}

void print_tenants(const Session& session, const json& sums) {
  Table table({{"TENANT", "tenant"},
               {"GPU", "gpu"},
               {"WORKLOADS", "workloads", true},
               {"USED", "used_bytes", true},
               {"LIMIT", "limit_bytes", true},
               {"GUARANTEE", "guarantee_bytes", true, true, 1},
               {"PEAK", "peak_bytes", true, false, 2},
               {"DENIED", "denials", true}});
  const auto size = [&](const json& row, const char* field) {
    const auto bytes = known_bytes(row, field);
    return bytes && *bytes < kUnlimited ? session.size(*bytes) : "-";
  };
  for (const json& row : sums) {
    const bool governed = row.at("governed") == true;
    const auto count = [&](const char* field) { return governed ? row.at(field).dump() : std::string("-"); };
    const bool promised = governed && row.at("guarantee_bytes") != 0;
    table.add({governed ? row.at("tenant").get<std::string>() : "(ungoverned)",
               row.at("gpu").is_number() ? row["gpu"].dump() : "-", count("workloads"),
               row.at("used_bytes").is_null() ? "n/a" : size(row, "used_bytes"), size(row, "limit_bytes"),
               promised ? size(row, "guarantee_bytes") : "-", size(row, "peak_bytes"), count("denials")});
  }
  table.print(session.format());
}

}  // namespace ration::cli
