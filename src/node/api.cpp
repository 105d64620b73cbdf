#include "node/api.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"

namespace ration::node {

using nlohmann::json;

Viewer Api::viewer_of(const http::Peer& peer) {
  Viewer viewer;
  viewer.user = peer.uid;
  viewer.is_operator = peer.token_accepted || (peer.uid && machine::is_operator(*peer.uid));
  return viewer;
}

http::Response Api::answer(const std::string& schema, const json& data, int status) const {
  return answer_text(schema, data.dump(-1, ' ', false, json::error_handler_t::replace), status);
}

http::Response Api::answer_text(const std::string& schema, const std::string& data, int status) const {
  const json document{{"schema", "ration." + schema + "/1"},
                      {"time", utc(unix_time_ns())},
                      {"host", machine::host_name()},
                      {"source", host_.simulated() ? "sim" : "daemon"},
                      {"warnings", json::array()}};
  http::Response response;
  response.status = status;
  response.body = document.dump(-1, ' ', false, json::error_handler_t::replace);
  response.body.pop_back();
  response.body += R"(,"data":)";
  response.body += data;
  response.body += "}";
  return response;
}

void Api::ask_history(const http::Responder& responder, const std::string& schema,
                      std::function<Result<json>(history::Reader&)> question) {
  const auto job = [this, responder, schema, path = host_.database(), question = std::move(question)] {
    auto reader = history::Reader::open(path);
    auto data = reader ? question(*reader) : tl::unexpected(reader.error());
    if (!data && data.error().id == "E1919") host_.report_damage();
    if (!data) return responder.fail(data.error());
    responder.respond(answer(schema, std::move(*data)));
  };
  if (!host_.worker().post(job))
    responder.fail({"E1517", "too many questions about the past wait already.", "Try again in a few seconds.", 1}, 503);
}

bool may_see_details(const history::Event& event, const Viewer& viewer) {
  return viewer.is_operator || (viewer.user && event.user == machine::user_name(*viewer.user));
}

json event_json(const history::Event& event, bool with_details) {
  const auto text = [](const std::string& value) { return value.empty() ? json(nullptr) : json(value); };
  const auto number = [](const auto& value) { return value ? json(*value) : json(nullptr); };
  json row{{"id", event.id},
           {"time", history::rfc3339(event.time)},
           {"type", event.type},
           {"workload", text(event.workload)},
           {"tenant", text(event.tenant)},
           {"user", text(event.user)},
           {"gpu", number(event.gpu)},
           {"bytes", number(event.bytes)},
           {"denial", text(event.denial)},
           {"by", text(event.by)},
           {"text", event.text},
           {"count", event.count},
           {"first_time", history::rfc3339(event.first_time == 0 ? event.time : event.first_time)},
           {"old", text(event.old_value)},
           {"new", text(event.new_value)},
           {"fix", text(event.fix)}};
  row["pid"] = with_details ? number(event.pid) : json(nullptr);
  if (!with_details) {
    row["pid_na"] = "not yours";
    // Sentences about ungoverned processes carry their command lines.
    if (event.type == "ungoverned") row["text"] = "a process that was not started through ration holds memory";
    return row;
  }
  if (event.why.empty()) return row;
  json why = json::parse(event.why, nullptr, false);
  if (why.is_object() && why.value("device_free_bytes", json(0)).is_null())
    why["device_free_bytes_na"] = "the driver did not say";
  row["why"] = std::move(why);
  return row;
}

Caller caller_of(const http::Request& request) {
  const Viewer viewer = Api::viewer_of(request.peer);
  Caller caller;
  caller.user = viewer.user;
  caller.is_operator = viewer.is_operator;
  caller.name = viewer.user ? machine::user_name(*viewer.user) : viewer.is_operator ? "token" : "nobody";
  return caller;
}

bool is_dry_run(const http::Request& request) {
  const std::string* dry = request.parameter("dry_run");
  return dry != nullptr && *dry != "0" && *dry != "false";
}

Result<json> body_of(const http::Request& request) {
  json body = json::parse(request.body, nullptr, false);
  if (body.is_object()) return body;
  return fail("E1521", "the body is no JSON object.",
              R"(curl … -H 'Content-Type: application/json' -d '{"limit":"4GiB"}')", 2);
}

Result<std::string> text_field(const json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return std::string{};
  if (found->is_string()) return found->get<std::string>();
  return fail("E1521", fmt::format("'{}' is no text.", name), fmt::format(R"("{}": "…")", name), 2);
}

Result<std::vector<std::string>> list_field(const json& body, const char* name) {
  std::vector<std::string> texts;
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return texts;
  const bool good =
      found->is_array() && std::all_of(found->begin(), found->end(), [](const json& each) { return each.is_string(); });
  if (!good)
    return fail("E1521", fmt::format("'{}' is no list of texts.", name), fmt::format(R"("{}": ["…"])", name), 2);
  return found->get<std::vector<std::string>>();
}

Result<bool> flag_field(const json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  return fail("E1521", fmt::format("'{}' is neither true nor false.", name), fmt::format(R"("{}": true)", name), 2);
}

Result<std::optional<std::int64_t>> number_field(const json& body, const char* name, std::int64_t least,
                                                 std::int64_t most) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return std::nullopt;
  // What is above every std::int64_t is a whole number for the library all the same.
  const bool whole = found->is_number_unsigned() ? found->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                 : found->is_number_integer();
  if (whole && found->get<std::int64_t>() >= least && found->get<std::int64_t>() <= most)
    return found->get<std::int64_t>();
  return fail("E1521", fmt::format("'{}' is no whole number from {} to {}.", name, least, most),
              fmt::format(R"("{}": {})", name, std::max<std::int64_t>(least, 1)), 2);
}

json Api::tenants() {
  const Snapshot& now = host_.engine().snapshot();
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
  std::map<std::string, const TenantNow*> configured;
  for (const TenantNow& tenant : host_.engine().state().tenants.all()) {
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
                   {"limit_bytes", nullptr},
                   {"limit_bytes_na", "no limit is set for this tenant"}};
      if (entry != configured.end()) {
        const auto& device_now = device.device;
        if (entry->second->limit.is_set()) {
          const auto limit = entry->second->limit.on(device_now.total, device_now.room());
          if (limit && *limit < kUnlimited) {
            account["limit_bytes"] = limit->count();
            account.erase("limit_bytes_na");
          }
        }
        if (entry->second->guarantee.is_set()) {
          if (const auto guarantee = entry->second->guarantee.on(device_now.total, device_now.room()))
            account["guarantee_bytes"] = guarantee->count();
        }
      }
      accounts.push_back(std::move(account));
    }
    json row{{"tenant", name}, {"accounts", accounts}};
    row["changes"] = entry == configured.end() ? 0 : entry->second->changes;
    row["limit_from"] = entry == configured.end() ? json(nullptr) : json(entry->second->limit_from);
    if (entry == configured.end()) row["limit_from_na"] = "the configuration does not name this tenant";
    row["priority"] = entry == configured.end() ? 0 : entry->second->priority;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string Api::snapshot(const Viewer& viewer, std::size_t most_processes) {
  const Snapshot& now = host_.engine().snapshot();
  json devices = json::array();
  for (const DeviceView& device : now.devices) devices.push_back(device_json(device));
  json data{{"devices", devices},
            {"tenants", tenants()},
            {"queue", host_.leases().describe_waiting(viewer)},
            {"last_event", host_.stream().newest_id()}};
  if (!now.machine_problem.empty()) data["devices_na"] = now.machine_problem;
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();
  return text + R"(,"workloads":)" + rows_text(now, viewer, most_processes) + "}";
}

void Api::install(http::Server& server) {
  install_now(server);
  install_changes(server);
  install_schedules(server);
  install_leases(server);
  install_past(server);
  install_reports(server);
  install_plan(server);
  install_pages(server);
}

}  // namespace ration::node
