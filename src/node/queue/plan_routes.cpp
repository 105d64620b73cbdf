// Serves the path that plans tenants on named hardware, or on this machine's.
#include "node/queue/plan_routes.hpp"

#include <fmt/format.h>

#include "http/problem.hpp"
#include "node/queue/plan_json.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTenants = 200, kMaxPlaces = 4'000;

tl::unexpected<Error> bad(const std::string& what) {
  return fail("E1521", what,
              R"({"gpus":["A100-40:2"],"tenants":[{"tenant":"nlp","guarantee":"16GiB","limit":"30GiB","count":1}]})",
              2);
}

Result<std::vector<PlanDevice>> devices_of(const json& body, const Snapshot& now) {
  const auto gpus = body.find("gpus");
  if (gpus == body.end() || gpus->is_null() || (gpus->is_array() && gpus->empty())) {
    std::vector<PlanDevice> devices;
    for (const DeviceView& view : now.devices)
      devices.push_back({view.device.index, view.device.name,
                         view.device.total - std::min(view.device.total, view.unexplained.value_or(Bytes{0}) +
                                                                             view.orphaned.value_or(Bytes{0}))});
    return devices;
  }
  if (!gpus->is_array()) return bad("'gpus' is not a list of models.");
  std::string text;
  for (const json& gpu : *gpus) {
    if (!gpu.is_string()) return bad("a GPU is named by a text: A100-40:2.");
    text += (text.empty() ? "" : ",") + gpu.get<std::string>();
  }
  return parse_plan_devices(text);
}

Result<PlanTenant> tenant_of(const json& entry, const std::vector<PlanDevice>& devices) {
  if (!entry.is_object()) return bad("a tenant is an object.");
  const auto name = text_field(entry, "tenant"), guarantee = text_field(entry, "guarantee"),
             limit = text_field(entry, "limit");
  for (const auto* field : {&name, &guarantee, &limit})
    if (!*field) return tl::unexpected(field->error());
  RATION_TRY(const auto count, number_field(entry, "count", 1, kMaxPerTenant));
  return parse_plan_tenant(
      fmt::format("{}={}{}*{}", *name, *guarantee, limit->empty() ? "" : ":" + *limit, count.value_or(1)), devices);
}

}  // namespace

void add_plan_routes(const AddRoute& add, RouteHost& host, const Moment& moment) {
  add("POST", "/api/v1/plan", [&host, &moment](const http::Request& request) -> Result<http::Response> {
    RATION_TRY(const auto body, body_of(request));
    RATION_TRY(const auto spread, flag_field(body, "spread"));
    RATION_TRY(const auto devices, devices_of(body, moment.snapshot));
    const auto list = body.find("tenants");
    if (list == body.end() || !list->is_array() || list->empty() || list->size() > kMaxTenants)
      return http::problem(bad(fmt::format("'tenants' is not a list of 1 to {} tenants.", kMaxTenants)).value());
    std::vector<PlanTenant> tenants;
    for (const json& entry : *list) {
      RATION_TRY(auto tenant, tenant_of(entry, devices));
      tenants.push_back(std::move(tenant));
    }
    // Limits the size of a plan, since alternatives are found by many trials of it.
    std::size_t many = 0;
    for (const PlanTenant& tenant : tenants) many += static_cast<std::size_t>(tenant.count);
    if (many * devices.size() > kMaxPlaces)
      return http::problem(
          bad(fmt::format("{} programs on {} GPUs are too many to plan at once.", many, devices.size())).value());
    return host.answer("plan", to_json(place(devices, tenants, spread)));
  });
}

}  // namespace ration::node
