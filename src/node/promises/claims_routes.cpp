// Serves paths of claims. A claim does not list its containers, which are ordinary workloads.
#include "node/promises/claims_routes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/labels.hpp"
#include "base/message_json.hpp"
#include "base/say.hpp"
#include "http/problem.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

json claim_json(const Snapshot& snapshot, const ContainerClaim& claim) {
  json devices = json::array();
  for (const ClaimedDevice& device : claim.devices) {
    json row{{"uuid", device.uuid},
             {"gpu", nullptr},
             {"limit_bytes", device.limit.count()},
             {"guarantee_bytes", device.guarantee.count()}};
    for (const DeviceView& view : snapshot.devices)
      if (view.device.uuid == device.uuid) row["gpu"] = view.device.index;
    if (row["gpu"].is_null()) put_message(row, "gpu_na", fixed<"unknown.device_gone">());
    devices.push_back(std::move(row));
  }
  return {{"id", claim.id},
          {"name", claim.name},
          {"tenant", claim.tenant},
          {"on_deny", claim.on_deny.empty() ? "fail" : claim.on_deny},
          {"devices", std::move(devices)},
          {"cdi", "ration.sh/claim=" + claim.id}};
}

/// Reads the devices of a claim. Fails with E1521.
Result<std::vector<ClaimedDevice>> devices_of(const json& body) {
  const char* fix = R"("devices": [{"uuid": "GPU-…", "limit_bytes": 4294967296}])";
  std::vector<ClaimedDevice> devices;
  const auto rows = body.find("devices");
  if (rows == body.end() || !rows->is_array()) return fail("E1521", "'devices' is not a list.", fix, 2);
  for (const json& row : *rows) {
    if (!row.is_object()) return fail("E1521", "one of 'devices' is not an object.", fix, 2);
    RATION_TRY(const auto uuid, text_field(row, "uuid"));
    ClaimedDevice device{uuid, {}, {}};
    for (const auto& [key, size] : {std::pair{"limit_bytes", &device.limit}, {"guarantee_bytes", &device.guarantee}}) {
      const auto found = row.find(key);
      if (found == row.end() && size == &device.guarantee) {
        *size = device.limit;
        continue;
      }
      if (found == row.end() || !found->is_number_unsigned())
        return fail("E1521", fmt::format("The field '{}' of a device must be a number of bytes.", key), fix, 2);
      *size = Bytes{found->get<std::uint64_t>()};
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

/// Returns the valid labels in the form that the configuration's rules match. Fails with E1521.
Result<std::string> labels_of(const json& body) {
  const json labels = body.value("labels", json::object());
  if (!labels.is_object()) return fail("E1521", "'labels' is not an object.", R"("labels": {"namespace": "ml"})", 2);
  std::string joined;
  for (const auto& [key, value] : labels.items()) {
    if (!value.is_string()) return fail("E1521", fmt::format("label '{}' is not a string.", key), "a string", 2);
    const std::string label = key + "=" + value.get<std::string>();
    if (is_label(label)) joined += (joined.empty() ? "" : ",") + label;
  }
  return joined;
}

Result<ContainerClaim> claim_from(const Request& request, const config::Configuration& configuration) {
  RATION_TRY(const auto body, body_of(request));
  ContainerClaim claim;
  claim.id = request.captures.at("id");
  for (auto [key, field] : {std::pair{"name", &claim.name}, {"tenant", &claim.tenant}, {"on_deny", &claim.on_deny}}) {
    RATION_TRY(const auto text, text_field(body, key));
    *field = text;
  }
  RATION_TRY(const auto growth, flag_field(body, "growth"));
  if (growth)
    return fail("E1521",
                "a claim cannot make frameworks start with little memory: only the pod can set their variables.",
                "TF_FORCE_GPU_ALLOW_GROWTH=true and XLA_PYTHON_CLIENT_PREALLOCATE=false in the pod's env", 2);
  RATION_TRY(claim.devices, devices_of(body));
  RATION_TRY(const auto labels, labels_of(body));
  http::Peer own = request.peer;  // the daemon's own hooks start the containers
  own.uid = ::getuid();
  RATION_TRY(const auto assigned, config::tenant_for(configuration, subject_of(own, claim.tenant, labels)));
  claim.tenant = assigned.tenant;
  return claim;
}

/// Fails with E1502 for a client that is no operator.
Result<void> may_ask(const http::Peer& peer) {
  if (viewer_of(peer).is_operator) return {};
  return fail("E1502", "only operators may use claims.", "Ask root or a member of group ration.", 5);
}

}  // namespace

void add_claim_routes(const AddRoute& add, RouteHost& host, ClaimSubjects node, AllowedTenants& allowed,
                      DevicePublisher& publisher) {
  constexpr int kRetryLater = 503;  // the claim is saved, and published once the engines' folder is writable again

  add("GET", "/api/v1/claims", [&host, node](const Request& request) -> Result<Response> {
    RATION_TRY(may_ask(request.peer));
    json rows = json::array();
    for (const auto& [id, claim] : node.claims.all()) rows.push_back(claim_json(node.moment.snapshot, claim));
    return host.answer("claims", rows);
  });

  add("GET", "/api/v1/claims/{id}", [&host, node](const Request& request) -> Result<Response> {
    RATION_TRY(may_ask(request.peer));
    const ContainerClaim* claim = node.claims.find(request.captures.at("id"));
    if (claim == nullptr)
      return http::problem({"E1714", fmt::format("there is no claim {} on this node.", request.captures.at("id")),
                            "The engine requests the claim before its containers start: restart the kubelet", 3});
    return host.answer("claim", claim_json(node.moment.snapshot, *claim));
  });

  add("PUT", "/api/v1/claims/{id}", [&host, node, &allowed, &publisher](const Request& request) -> Result<Response> {
    RATION_TRY(may_ask(request.peer));
    tick_before_change(host, request);  // frees the memory of workloads that have ended
    RATION_TRY(const auto claim, claim_from(request, node.moment.configuration));
    Events events;
    RATION_TRY(const auto granted, grant_claim(node, claim, events));
    host.record(std::move(events));
    allowed.add(::getuid(), granted.tenant);
    if (const auto published = publisher.publish(node.moment); !published)
      return http::problem(published.error(), kRetryLater);
    return host.answer("claim", claim_json(node.moment.snapshot, granted));
  });

  add("DELETE", "/api/v1/claims/{id}", [&host, node, &publisher](const Request& request) -> Result<Response> {
    RATION_TRY(may_ask(request.peer));
    const bool known = node.claims.find(request.captures.at("id")) != nullptr;
    Events events;
    RATION_TRY(release_claim(node.claims, request.captures.at("id"), events));
    host.record(std::move(events));
    if (known)
      if (const auto published = publisher.publish(node.moment); !published)
        return http::problem(published.error(), kRetryLater);
    http::Response done;
    done.status = 204;
    return done;
  });
}

}  // namespace ration::node
