// Paths that change something: limits, registrations, the configuration.
#include <fmt/format.h>

#include "base/own_folder.hpp"
#include "base/strings.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/http/api.hpp"
#include "node/limits/limits_requests.hpp"
#include "node/limits/promises.hpp"
#include "node/residency/residency_requests.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

/// Reads the guarantees that a workload requests, by device UUID. E1521.
Result<std::map<std::string, Bytes>> guarantees_of(const json& body) {
  std::map<std::string, Bytes> wanted;
  const auto found = body.find("guarantees");
  if (found == body.end() || found->is_null()) return wanted;
  const char* fix = R"("guarantees": {"GPU-…": 4294967296})";
  if (!found->is_object()) return fail("E1521", "'guarantees' is not an object of bytes by device.", fix, 2);
  for (const auto& [uuid, bytes] : found->items()) {
    if (!bytes.is_number_unsigned())
      return fail("E1521", fmt::format("'guarantees': the entry for {} is not a number of bytes.", uuid), fix, 2);
    wanted[uuid] = std::min(Bytes{bytes.get<std::uint64_t>()}, kUnlimited);
  }
  return wanted;
}

}  // namespace

void Api::install_changes() {
  for (const auto& [action, state] :
       {std::pair{"suspend", "suspending"}, {"resume", "resuming"}, {"trim", "trimming"}}) {
    server_.route("POST", fmt::format("/api/v1/workloads/{{name}}/{}", action),
                  [this, action = std::string(action), state = std::string(state)](const Request& request) {
                    Engine& engine = host_.engine();
                    const std::string& name = request.captures.at("name");
                    tick_before_change(host_, request);
                    const Caller caller = caller_of(request);
                    Events events;
                    const auto done = action == "suspend"  ? suspend(engine.state(), name, caller, events)
                                      : action == "resume" ? resume(engine.state(), name, caller)
                                                           : trim(engine.state(), name, caller);
                    if (!done) return http::problem(done.error());
                    host_.record(std::move(events));
                    host_.tick_soon();
                    const auto named = engine.registry().named(name, caller.user);
                    return answer("moving", {{"workload", named ? (*named)->book.name : name}, {"state", state}}, 202);
                  });
  }

  // `ration run` calls this before it makes its book: returns the tenant to charge, and registers the folder of the
  // books.
  server_.route("POST", "/api/v1/workloads", [this](const Request& request) {
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
    if (auto known = host_.engine().watch(folder, *request.peer.uid); !known) return http::problem(known.error());
    http::Peer person = request.peer;
    const auto user = number_field(*body, "user", 0, std::numeric_limits<std::uint32_t>::max());
    if (!user) return http::problem(user.error());
    if (*user && request.peer.uid == 0U)
      person.uid = static_cast<std::uint32_t>(**user);  // root starts a job of that user
    const auto assigned = config::tenant_for(host_.engine().configuration(), subject_of(person, tenant, labels));
    if (!assigned) return http::problem(assigned.error());
    const bool wants_promises = !guarantees->empty();
    if (wants_promises) tick_before_change(host_, request);  // frees what ended workloads held
    for (const DeviceView& device : host_.engine().snapshot().devices) {
      if (!wants_promises) break;
      const auto more = guarantees->find(device.device.uuid);
      if (more == guarantees->end()) continue;
      // A claim already has the guarantees of its containers.
      if (!claims_of(host_.engine().state(), *request.peer.uid, labels, device.device.uuid).empty()) continue;
      if (!viewer_of(request.peer).is_operator)
        if (auto good = may_promise(host_.engine().state(), device, assigned->tenant, more->second, slice); !good)
          return http::problem(good.error());
      if (auto good = can_promise(host_.engine().state(), device, assigned->tenant, more->second, "", slice); !good)
        return http::problem(good.error());
    }
    if (!lease.empty() && name.rfind(folder + "/books/", 0) != 0)
      return http::problem({"E1530", "the book of a lease lies in the folder that is registered.",
                            "ration run --wait --limit SIZE -- …", 2});
    const std::string book = real_path(folder) + name.substr(std::min(name.size(), folder.size()));
    if (!lease.empty() && !host_.leases().mark_running(lease, book, *request.peer.uid)) {
      return http::problem(
          {"E1524", fmt::format("lease {} is not granted to you.", lease), "ration run --wait --limit SIZE -- …", 4});
    }
    host_.engine().state().allowed.add(*person.uid, assigned->tenant);
    if (*made)
      host_.tick_now();
    else
      host_.tick_soon();
    return answer("registered", {{"tenant", assigned->tenant}});
  });

  server_.route("POST", "/api/v1/reload", [this](const Request& request) {
    if (!viewer_of(request.peer).is_operator)
      return http::problem(
          {"E1502", "you may not reload the configuration.", "Ask root or a member of group ration.", 5});
    const auto lines = host_.reload();
    if (!lines) return http::problem(lines.error());
    return answer("reload", {{"changes", *lines}});
  });
}

}  // namespace ration::node
