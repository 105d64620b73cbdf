#include "node/http/node_routes.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "base/message_json.hpp"
#include "base/process.hpp"
#include "base/say.hpp"
#include "base/strings.hpp"
#include "http/problem.hpp"
#include "machine/process_origin.hpp"
#include "node/http/audience.hpp"
#include "node/http/row_filter.hpp"
#include "node/limits/limits_requests.hpp"
#include "node/snapshot/config_subject.hpp"
#include "node/snapshot/explain.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

http::Response no_such(const std::string& what, const std::string& name) {
  return http::problem({"E1801", fmt::format("no {} is named '{}'.", what, name), "ration ps", 3});
}

/// Finds a device by index or UUID; null if there is none.
const DeviceView* device_named(const Snapshot& now, const std::string& name) {
  for (const DeviceView& device : now.devices)
    if (device.device.is_named(name)) return &device;
  return nullptr;
}

/// Parses `processes=N`, the most processes to list for each workload. Fails with E1527.
Result<std::size_t> most_processes(const Request& request) {
  const std::string* text = request.parameter("processes");
  if (text == nullptr) return kAllProcesses;
  std::size_t number = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), number);
  if (text->empty() || read.ec != std::errc{} || read.ptr != text->data() + text->size())
    return fail("E1527", fmt::format("processes={} is not a number.", *text), "processes=1", 2);
  return number;
}

/// Parses the body of a PATCH. Fails with E1521.
Result<LimitRequest> limit_request(const Request& request) {
  RATION_TRY(const auto body, body_of(request));
  LimitRequest change;
  change.workload = request.captures.at("name");
  for (auto [name, field] : {std::pair{"limit", &change.limit},
                             {"host_limit", &change.host_limit},
                             {"guarantee", &change.guarantee},
                             {"gpu", &change.gpu}}) {
    RATION_TRY(const auto text, text_field(body, name));
    if (text.empty() && body.contains(name) && !body.at(name).is_null())
      return fail("E1521", fmt::format("'{}' is empty.", name),
                  R"(-d '{"limit":"4GiB"}', and leave out the fields that stay unchanged)", 2);
    *field = text;
  }
  for (const auto& [key, value] : body.items())
    if (key != "limit" && key != "host_limit" && key != "guarantee" && key != "gpu")
      return fail(
          "E1521",
          fmt::format("'{}' cannot be changed.{}", key, suggestion(key, {"limit", "host_limit", "guarantee", "gpu"})),
          R"(-d '{"limit":"4GiB"}')", 2);
  change.dry_run = is_dry_run(request);
  if (const std::string* match = request.headers.find("if-match"); match != nullptr) {
    std::string number = *match;
    std::erase(number, '"');
    try {
      change.expected_changes = std::stoull(number);
    } catch (const std::exception&) {
      return fail("E1521", fmt::format("If-Match: {} is not a value of limit_changes.", *match),
                  "Send the row's limit_changes.", 2);
    }
  }
  return change;
}

json changed_json(const LimitChanged& change, bool applied) {
  json row{{"workload", change.workload},
           {"old_limit_bytes", change.old_limit.count()},
           {"limit_bytes", change.limit.count()},
           {"effective_limit_bytes", change.in_force.count()},
           {"old_guarantee_bytes", change.old_guarantee.count()},
           {"guarantee_bytes", change.guarantee.count()},
           {"used_bytes", change.used.count()},
           {"shrinking", change.used > change.limit},
           {"applied", applied}};
  row["gpu"] = change.gpu ? json(*change.gpu) : json(nullptr);
  if (!change.gpu) put_message(row, "gpu_na", fixed<"unknown.device_elsewhere">());
  row["device_free_bytes"] = change.device_free ? json(change.device_free->count()) : json(nullptr);
  if (!change.device_free) put_message(row, "device_free_bytes_na", fixed<"unknown.driver_unasked">());
  if (!change.held_back_by.empty()) put_message(row, "held_back_by", change.held_back_by);
  if (change.host) {
    const auto limit = [](Bytes bytes) { return bytes < kUnlimited ? json(bytes.count()) : json(nullptr); };
    row["old_host_limit_bytes"] = limit(change.host->before);
    row["host_limit_bytes"] = limit(change.host->after);
    row["host_used_bytes"] = change.host->used.count();
  }
  return row;
}

Message effect_of(const LimitChanged& change) {
  if (change.used > change.limit)
    return say<"change.exceeded">("workload"_is(change.workload), "used_bytes"_is(change.used),
                                  "over_bytes"_is(change.used - change.limit));
  if (!change.held_back_by.empty())
    return say<"change.held_back">("limit_bytes"_is(change.in_force), "reason"_is(change.held_back_by));
  if (!change.gpu) return say<"change.next_elsewhere">("limit_bytes"_is(change.limit));
  if (change.device_free && change.limit - change.used > *change.device_free)
    return say<"change.out_of_reach">("gpu"_is(*change.gpu), "free_bytes"_is(*change.device_free),
                                      "limit_bytes"_is(change.limit));
  return say<"change.next">("gpu"_is(*change.gpu), "limit_bytes"_is(change.limit));
}

/// Describes the effect of a change in one sentence.
json consequence(const LimitChanged& change) {
  json row{{"level", change.used > change.limit ? "warn" : "info"}};
  put_message(row, "text", effect_of(change));
  return row;
}

/// Renders `{"changes":[…],"consequences":[{"level","text"}]}`. `applied` is false after a dry run.
json changes_json(const std::vector<LimitChanged>& changes, bool applied) {
  json rows = json::array(), consequences = json::array();
  for (const LimitChanged& change : changes) {
    rows.push_back(changed_json(change, applied));
    consequences.push_back(consequence(change));
  }
  return {{"changes", std::move(rows)}, {"consequences", std::move(consequences)}};
}

/// Returns the pid namespace of a process; 0 if the process is invisible.
std::uint64_t pid_namespace_of(std::int32_t pid) {
  std::int32_t inner = 0;
  std::uint64_t space = 0;
  return machine::inner_identity(pid, inner, space) ? space : 0;
}

/// Returns the viewer. A client inside a container has no user but sees the container's own workload: the kernel
/// reports the client's process, and no image can choose the pid namespace of that process.
Viewer viewer_of_workload(const http::Peer& peer, const Registry& registry, const std::string& name) {
  Viewer viewer = viewer_of(peer);
  if (peer.uid || !peer.pid) return viewer;
  const std::uint64_t asking = pid_namespace_of(*peer.pid);
  const auto named = registry.named(name, viewer.user);
  if (asking != 0 && asking != own_pid_namespace() && named && asking == pid_namespace_of((*named)->book.creator.pid))
    viewer = {.user = (*named)->owner};
  return viewer;
}

/// Returns the viewer. For a client inside a container, adds the books of that container's workloads.
Viewer viewer_with_own_books(const http::Peer& peer, const Registry& registry) {
  Viewer viewer = viewer_of(peer);
  if (!viewer.totals_only || !peer.pid) return viewer;
  const std::uint64_t asking = pid_namespace_of(*peer.pid);
  if (asking == 0 || asking == own_pid_namespace()) return viewer;
  for (const auto& [path, workload] : registry.workloads())
    if (pid_namespace_of(workload.book.creator.pid) == asking) viewer.own_books.insert(path);
  return viewer;
}

}  // namespace

json NodeRoutes::tenants() {
  const Snapshot& now = host_.moment().snapshot;
  struct Sums {
    Bytes used, limit, guarantee, peak;
    std::uint64_t denials = 0;
  };
  std::map<std::string, std::map<int, Sums>> sums;
  for (const AccountView& account : now.accounts) {
    Sums& sum = sums[account.tenant][account.gpu.value_or(-1)];
    sum.used += account.used;
    sum.guarantee += account.guarantee;
    sum.peak += account.peak;
    sum.denials += account.denials;
  }
  std::map<std::string, const TenantStatus*> configured;
  for (const TenantStatus& tenant : host_.subjects().tenants.all()) {
    configured[tenant.name] = &tenant;
    sums[tenant.name];
  }
  json rows = json::array();
  for (const auto& [name, by_gpu] : sums) {
    const auto entry = configured.find(name);
    json accounts = json::array();
    for (const DeviceView& device : now.devices) {
      const auto found = by_gpu.find(device.device.index);
      const Sums sum = found == by_gpu.end() ? Sums{} : found->second;
      if (found == by_gpu.end() && entry == configured.end()) continue;
      json account{{"gpu", device.device.index},
                   {"used_bytes", sum.used.count()},
                   {"guarantee_bytes", sum.guarantee.count()},
                   {"peak_bytes", sum.peak.count()},
                   {"denials", sum.denials},
                   {"limit_bytes", nullptr}};
      if (entry != configured.end()) {
        const auto& device_now = device.device;
        if (entry->second->limit.is_set()) {
          const auto limit = entry->second->limit.on(device_now.total, device_now.room());
          if (limit && *limit < kUnlimited) {
            account["limit_bytes"] = limit->count();
          }
        }
        if (entry->second->guarantee.is_set()) {
          if (const auto guarantee = entry->second->guarantee.on(device_now.total, device_now.room()))
            account["guarantee_bytes"] = guarantee->count();
        }
      }
      if (account["limit_bytes"].is_null()) put_message(account, "limit_bytes_na", fixed<"unknown.no_limit">());
      accounts.push_back(std::move(account));
    }
    json row{{"tenant", name}, {"accounts", accounts}};
    row["changes"] = entry == configured.end() ? 0 : entry->second->changes;
    row["limit_from"] = entry == configured.end() ? json(nullptr) : json(entry->second->limit_from);
    if (entry == configured.end()) put_message(row, "limit_from_na", fixed<"unknown.no_tenant">());
    row["priority"] = entry == configured.end() ? 0 : entry->second->priority;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string NodeRoutes::snapshot(const Viewer& viewer, std::size_t most_processes) {
  return snapshot_text(host_.moment().snapshot, viewer, most_processes);
}

Result<json> NodeRoutes::room_in(const Request& request) {
  const std::string* asked = request.parameter("tenant");
  if (asked == nullptr) return json(nullptr);
  if (!request.peer.uid)
    return fail("E1523", "the room of a tenant must be requested on the socket, where the daemon knows the user.",
                "ration fits SIZE", 5);
  const Moment& moment = host_.moment();
  RATION_TRY(const auto assigned, config::tenant_for(moment.configuration, subject_of(request.peer, *asked, "")));
  json devices = json::array();
  for (const DeviceView& device : moment.snapshot.devices) {
    const TenantRoom room = host_.subjects().promises.room_for(moment, device, assigned.tenant);
    json row{{"gpu", device.device.index},
             {"uuid", device.device.uuid},
             {"available_bytes", room.available.count()},
             {"limit_bytes", nullptr},
             {"left_of_limit_bytes", nullptr}};
    if (room.limit < kUnlimited) {
      row["limit_bytes"] = room.limit.count();
      row["left_of_limit_bytes"] = room.left_of_limit.count();
    } else {
      put_message(row, "limit_bytes_na", fixed<"unknown.no_limit">());
      put_message(row, "left_of_limit_bytes_na", fixed<"unknown.no_limit">());
    }
    devices.push_back(std::move(row));
  }
  return json{{"tenant", assigned.tenant}, {"devices", std::move(devices)}};
}

std::string NodeRoutes::snapshot_text(const Snapshot& snapshot, const Viewer& viewer, std::size_t most_processes,
                                      const json& room) {
  const Moment& moment = host_.moment();
  json devices = json::array();
  for (const DeviceView& device : moment.snapshot.devices) devices.push_back(device_json(device));
  json data = more_of_snapshot_ ? more_of_snapshot_(viewer) : json::object();
  data.update({{"devices", devices}, {"tenants", viewer.totals_only ? json::array() : tenants()}});
  if (viewer.totals_only)
    for (const char* list : {"workloads_na", "tenants_na", "queue_na"}) put_message(data, list, kTotalsOnly);
  if (!moment.snapshot.machine_problem.empty()) put_message(data, "devices_na", moment.snapshot.machine_problem);
  if (!moment.machine)
    data["warnings"] = {{{"id", moment.machine.error().id},
                         {"message", moment.machine.error().what},
                         {"fix", moment.machine.error().fix}}};
  if (!room.is_null()) data["room"] = room;
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();
  return text + R"(,"workloads":)" + rows_text(snapshot, viewer, most_processes) + "}";
}

Response NodeRoutes::reply_text(const char* schema, const std::string& data) const {
  return answer_text(host_.source(), schema, data);
}

void NodeRoutes::install(const AddRoute& add) {
  add("GET", "/api/v1/snapshot", [this](const Request& request) -> Result<Response> {
    if (request.parameter("tenant") != nullptr)
      tick_before_change(host_, request);  // a program will start where there is room
    else
      host_.tick_if_stale();
    RATION_TRY(const auto most, most_processes(request));
    const Viewer viewer = viewer_with_own_books(request.peer, host_.moment().registry);
    RATION_TRY(const auto some, filtered(host_.moment().snapshot, request, viewer));
    RATION_TRY(const json room, room_in(request));
    return reply_text("snapshot", snapshot_text(some ? *some : host_.moment().snapshot, viewer, most, room));
  });
  add("GET", "/api/v1/workloads", [this](const Request& request) -> Result<Response> {
    host_.tick_if_stale();
    RATION_TRY(const auto most, most_processes(request));
    const Viewer viewer = viewer_of(request.peer);
    RATION_TRY(const auto some, filtered(host_.moment().snapshot, request, viewer));
    return reply_text("workloads", rows_text(some ? *some : host_.moment().snapshot, viewer, most));
  });
  add("GET", "/api/v1/devices", [this](const Request&) {
    host_.tick_if_stale();
    json rows = json::array();
    for (const DeviceView& device : host_.moment().snapshot.devices) rows.push_back(device_json(device));
    return host_.answer("devices", rows);
  });
  add("GET", "/api/v1/devices/{gpu}", [this](const Request& request) {
    host_.tick_if_stale();
    const std::string& wanted = request.captures.at("gpu");
    const DeviceView* device = device_named(host_.moment().snapshot, wanted);
    return device == nullptr ? no_such("device", wanted) : host_.answer("devices", json::array({device_json(*device)}));
  });
  add("GET", "/api/v1/devices/{gpu}/explain", [this](const Request& request) {
    host_.tick_if_stale();
    const Snapshot& now = host_.moment().snapshot;
    const std::string& wanted = request.captures.at("gpu");
    const DeviceView* device = device_named(now, wanted);
    if (device == nullptr) return no_such("device", wanted);
    return host_.answer("explain_device", explain_device(now, *device, viewer_of(request.peer)));
  });
  add("GET", "/api/v1/workloads/{name}", [this](const Request& request) -> Result<Response> {
    host_.tick_if_stale();
    RATION_TRY(const auto named, host_.moment().registry.named(request.captures.at("name"), request.peer.uid));
    return reply_text("workloads", rows_text_of(named->path, host_.moment().snapshot, viewer_of(request.peer)));
  });
  add("GET", "/api/v1/workloads/{name}/explain", [this](const Request& request) {
    host_.tick_if_stale();
    const Moment& moment = host_.moment();
    const std::string& name = request.captures.at("name");
    const Viewer viewer = viewer_of_workload(request.peer, moment.registry, name);
    if (viewer.totals_only) return totals_only();
    const auto explained = explain_workload(moment.registry, moment.snapshot, name, viewer);
    return explained ? host_.answer("explain_workload", *explained) : http::problem(explained.error());
  });
  add("GET", "/api/v1/processes/{pid}/explain", [this](const Request& request) {
    host_.tick_if_stale();
    const auto explained =
        explain_process(host_.moment().snapshot, request.captures.at("pid"), viewer_of(request.peer));
    return explained ? host_.answer("explain_process", *explained) : http::problem(explained.error());
  });
  add("GET", "/api/v1/tenants", [this](const Request&) { return host_.answer("tenants", tenants()); });
  add("GET", "/api/v1/tenants/{name}", [this](const Request& request) {
    json rows = tenants();
    const std::string& name = request.captures.at("name");
    std::erase_if(rows.get_ref<json::array_t&>(), [&](const json& row) { return row.at("tenant") != name; });
    return rows.empty() ? no_such("tenant", name) : host_.answer("tenants", rows);
  });
  add("GET", "/api/v1/tenants/{name}/explain", [this](const Request& request) {
    host_.tick_if_stale();
    const std::string& name = request.captures.at("name");
    const json explained = explain_tenant(host_.moment().snapshot, name);
    if (explained.at("devices").empty() && host_.subjects().tenants.find(name) == nullptr)
      return no_such("tenant", name);
    return host_.answer("explain_tenant", explained);
  });
  install_changes(add);
}

void NodeRoutes::install_changes(const AddRoute& add) {
  add("PATCH", "/api/v1/workloads/{name}", [this](const Request& request) -> Result<Response> {
    RATION_TRY(const auto change, limit_request(request));
    tick_before_change(host_, request);
    Events events;
    auto changes = change_workload(host_.subjects().limit_subjects(host_.moment()), change, caller_of(request), events);
    if (!changes) return http::problem(changes.error(), changes.error().id == "E1503" ? 412 : 0);
    host_.record(std::move(events));
    if (!change.dry_run) {
      host_.tick_now();  // this tick adjusts the limits of other workloads
      refresh(host_.moment().snapshot, *changes);
    }
    return host_.answer("change", changes_json(*changes, !change.dry_run));
  });

  add("PATCH", "/api/v1/tenants/{name}", [this](const Request& request) -> Result<Response> {
    RATION_TRY(const auto asked, limit_request(request));
    Events events;
    const auto changes = change_tenant(host_.moment(), host_.subjects().tenants, host_.subjects().promises, asked,
                                       caller_of(request), events);
    if (!changes) return http::problem(changes.error(), changes.error().id == "E1503" ? 412 : 0);
    host_.record(std::move(events));
    if (!asked.dry_run) host_.tick_now();
    json rows = json::array();
    for (const TenantChange& change : *changes) {
      json over = json::array();
      for (const TenantChange::Over& each : change.over)
        over.push_back({{"gpu", each.gpu}, {"used_bytes", each.used.count()}, {"limit_bytes", each.limit.count()}});
      rows.push_back({{"tenant", change.tenant},
                      {"what", change.what},
                      {"old", change.old_text},
                      {"new", change.new_text},
                      {"over", std::move(over)},
                      {"applied", !asked.dry_run}});
    }
    return host_.answer("change_tenant", rows);
  });
}

}  // namespace ration::node
