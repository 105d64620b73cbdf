#include "node/queue/plan_json.hpp"

#include "base/message_json.hpp"
#include "base/say.hpp"

namespace ration::node {
namespace {

void set_limit(nlohmann::json& row, Bytes limit) {
  row["limit_bytes"] = limit.count();
  if (limit < kUnlimited) return;
  row["limit_bytes"] = nullptr;
  put_message(row, "limit_bytes_na", fixed<"unknown.unlimited">());
}

nlohmann::json groups_json(const std::vector<PlacedGroup>& groups) {
  auto rows = nlohmann::json::array();
  for (const PlacedGroup& group : groups) {
    nlohmann::json row{{"tenant", group.tenant}, {"count", group.count}, {"guarantee_bytes", group.guarantee.count()}};
    set_limit(row, group.limit);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

nlohmann::json to_json(const Placement& placement) {
  auto devices = nlohmann::json::array(), unreachable = nlohmann::json::array();
  for (const PlacedDevice& placed : placement.devices) {
    devices.push_back({{"gpu", placed.device.gpu},
                       {"name", placed.device.name},
                       {"usable_bytes", placed.device.usable.count()},
                       {"guaranteed_bytes", placed.guaranteed.count()},
                       {"spare_bytes", placed.spare.count()},
                       {"tenants", groups_json(placed.groups)}});
  }
  for (const UnreachableBurst& burst : placement.bursts) {
    nlohmann::json row{{"tenant", burst.tenant}, {"gpu", burst.gpu}, {"reachable_bytes", burst.reachable.count()}};
    set_limit(row, burst.limit);
    unreachable.push_back(row);
  }
  nlohmann::json data{{"fits", placement.fits},
                      {"spread", placement.spread},
                      {"needed_bytes", placement.needed.count()},
                      {"available_bytes", placement.available.count()},
                      {"devices", devices},
                      {"left_over", groups_json(placement.left_over)},
                      {"unreachable", unreachable},
                      {"change", nullptr},
                      {"more_devices", placement.more_devices}};
  if (placement.change) {
    data["change"] = {{"tenant", placement.change->tenant},
                      {"guarantee_bytes", placement.change->guarantee.count()},
                      {"count", placement.change->count},
                      {"less_bytes", placement.change->less.count()}};
  } else {
    put_message(data, "change_na", placement.fits ? fixed<"plan.no_change_needed">() : fixed<"plan.no_change_helps">());
  }
  return data;
}

}  // namespace ration::node
