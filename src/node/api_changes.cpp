// What changes something: limits, registrations, the configuration.
#include <fmt/format.h>

#include "base/strings.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/api.hpp"
#include "node/commands/limits.hpp"
#include "node/commands/residency.hpp"
#include "node/state/promises.hpp"
#include "node/subject.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

/// What a PATCH asks for. E1521.
Result<LimitRequest> limit_request(const Request& request) {
  const auto body = body_of(request);
  if (!body) return tl::unexpected(body.error());
  LimitRequest wish;
  wish.workload = request.captures.at("name");
  for (auto [name, field] : {std::pair{"limit", &wish.limit}, {"guarantee", &wish.guarantee}, {"gpu", &wish.gpu}}) {
    const auto text = text_field(*body, name);
    if (!text) return tl::unexpected(text.error());
    if (text->empty() && body->contains(name) && !body->at(name).is_null())
      return fail("E1521", fmt::format("'{}' is empty.", name), R"(-d '{"limit":"4GiB"}', and leave out what stays)",
                  2);
    *field = *text;
  }
  for (const auto& [key, value] : body->items())
    if (key != "limit" && key != "guarantee" && key != "gpu")
      return fail("E1521",
                  fmt::format("'{}' cannot be changed.{}", key, suggestion(key, {"limit", "guarantee", "gpu"})),
                  R"(-d '{"limit":"4GiB"}')", 2);
  wish.dry_run = is_dry_run(request);
  if (const std::string* match = request.headers.find("if-match"); match != nullptr) {
    std::string number = *match;
    std::erase(number, '"');
    try {
      wish.expected_changes = std::stoull(number);
    } catch (const std::exception&) {
      return fail("E1521", fmt::format("If-Match: {} is no number of changes.", *match),
                  "Give the row's limit_changes.", 2);
    }
  }
  return wish;
}

/// What a workload wants to be promised, by the UUID of the device. E1521.
Result<std::map<std::string, Bytes>> guarantees_of(const json& body) {
  std::map<std::string, Bytes> wanted;
  const auto found = body.find("guarantees");
  if (found == body.end() || found->is_null()) return wanted;
  const char* fix = R"("guarantees": {"GPU-…": 4294967296})";
  if (!found->is_object()) return fail("E1521", "'guarantees' is no object of bytes by device.", fix, 2);
  for (const auto& [uuid, bytes] : found->items()) {
    if (!bytes.is_number_unsigned())
      return fail("E1521", fmt::format("'guarantees': what {} is to promise is no number of bytes.", uuid), fix, 2);
    wanted[uuid] = std::min(Bytes{bytes.get<std::uint64_t>()}, kUnlimited);
  }
  return wanted;
}

}  // namespace

// What it holds at this moment is what is changed; but nobody keeps the daemon looking by asking for what he may not.
void Api::look_before_change(const Request& request) {
  if (viewer_of(request.peer).is_operator)
    host_.look_now();
  else
    host_.look_if_stale();
}

void Api::install_changes(http::Server& server) {
  server.route("PATCH", "/api/v1/workloads/{name}", [this](const Request& request) {
    const auto read = limit_request(request);
    if (!read) return http::problem(read.error());
    const LimitRequest& wish = *read;
    look_before_change(request);
    std::vector<history::Event> events;
    auto changes = change_workload(host_.engine().state(), wish, caller_of(request), events);
    if (!changes) return http::problem(changes.error(), changes.error().id == "E1503" ? 412 : 0);
    host_.record(std::move(events));
    if (!wish.dry_run) {
      host_.look_now();  // it says what holds beside everybody else
      refresh(host_.engine().snapshot(), *changes);
    }
    return answer("change", changes_json(*changes, !wish.dry_run));
  });

  for (const auto& [action, state] :
       {std::pair{"suspend", "suspending"}, {"resume", "resuming"}, {"trim", "trimming"}}) {
    server.route("POST", fmt::format("/api/v1/workloads/{{name}}/{}", action),
                 [this, action = std::string(action), state = std::string(state)](const Request& request) {
                   Engine& engine = host_.engine();
                   const std::string& name = request.captures.at("name");
                   look_before_change(request);
                   const Caller caller = caller_of(request);
                   std::vector<history::Event> events;
                   const auto done = action == "suspend"  ? suspend(engine.state(), name, caller, events)
                                     : action == "resume" ? resume(engine.state(), name, caller)
                                                          : trim(engine.state(), name, caller);
                   if (!done) return http::problem(done.error());
                   host_.record(std::move(events));
                   host_.look_soon();
                   const auto named = engine.registry().named(name, caller.user);
                   return answer("moving", {{"workload", named ? (*named)->book.name : name}, {"state", state}}, 202);
                 });
  }

  server.route("PATCH", "/api/v1/tenants/{name}", [this](const Request& request) {
    const auto wish = limit_request(request);
    if (!wish) return http::problem(wish.error());
    std::vector<history::Event> events;
    const auto changes = change_tenant(host_.engine().state(), *wish, caller_of(request), events);
    if (!changes) return http::problem(changes.error(), changes.error().id == "E1503" ? 412 : 0);
    host_.record(std::move(events));
    if (!wish->dry_run) host_.look_now();
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
                      {"applied", !wish->dry_run}});
    }
    return answer("change_tenant", rows);
  });

  // What `ration run` asks before it makes its book: who is charged, and whether the books there may be read.
  server.route("POST", "/api/v1/workloads", [this](const Request& request) {
    const auto body = body_of(request);
    if (!body) return http::problem(body.error());
    if (!request.peer.uid)
      return http::problem(
          {"E1523", "workloads register on the socket, where their user is known.", "ration run --limit SIZE -- …", 5});
    std::string folder, tenant, labels, lease, name, slice;
    for (auto [key, field] : {std::pair{"folder", &folder},
                              {"tenant", &tenant},
                              {"labels", &labels},
                              {"lease", &lease},
                              {"book", &name},
                              {"slice", &slice}}) {
      const auto text = text_field(*body, key);
      if (!text) return http::problem(text.error());
      *field = *text;
    }
    const auto guarantees = guarantees_of(*body);
    if (!guarantees) return http::problem(guarantees.error());
    const auto made = flag_field(*body, "made");
    if (!made) return http::problem(made.error());
    const auto devices = list_field(*body, "devices");
    if (!devices) return http::problem(devices.error());
    if (auto good = host_.engine().check_devices(*devices); !good) return http::problem(good.error());
    if (auto known = host_.engine().adopt(folder, *request.peer.uid); !known) return http::problem(known.error());
    const auto assigned = config::tenant_for(host_.engine().configuration(), subject_of(request.peer, tenant, labels));
    if (!assigned) return http::problem(assigned.error());
    const bool wants_promises = !guarantees->empty();
    if (wants_promises) look_before_change(request);  // what was promised to somebody who has ended is free
    for (const DeviceView& device : host_.engine().snapshot().devices) {
      if (!wants_promises) break;
      const auto more = guarantees->find(device.device.uuid);
      if (more == guarantees->end()) continue;
      if (!viewer_of(request.peer).is_operator)
        if (auto good = may_promise(host_.engine().state(), device, assigned->tenant, more->second, slice); !good)
          return http::problem(good.error());
      if (auto good = can_promise(host_.engine().state(), device, assigned->tenant, more->second, "", slice); !good)
        return http::problem(good.error());
    }
    if (!lease.empty() && name.rfind(folder + "/books/", 0) != 0)
      return http::problem({"E1530", "the book of a lease lies in the folder that is registered.",
                            "ration run --wait --limit SIZE -- …", 2});
    const std::string book = real_folder(folder) + name.substr(std::min(name.size(), folder.size()));
    if (!lease.empty() && !host_.leases().take_up(lease, book, *request.peer.uid)) {
      return http::problem(
          {"E1524", fmt::format("lease {} is not granted to you.", lease), "ration run --wait --limit SIZE -- …", 4});
    }
    host_.engine().state().allowed.emplace(*request.peer.uid, assigned->tenant);
    if (*made)
      host_.look_now();
    else
      host_.look_soon();
    return answer("registered", {{"tenant", assigned->tenant}});
  });

  server.route("POST", "/api/v1/reload", [this](const Request& request) {
    if (!viewer_of(request.peer).is_operator)
      return http::problem(
          {"E1502", "you may not reload the configuration.", "Ask root or a member of group ration.", 5});
    const auto lines = host_.reload();
    if (!lines) return http::problem(lines.error());
    return answer("reload", {{"changes", *lines}});
  });
}

}  // namespace ration::node
