// Serves paths that change something: limits, registrations, the configuration.
#include <fmt/format.h>

#include "base/own_folder.hpp"
#include "base/strings.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/http/api.hpp"
#include "node/residency/residency_requests.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

/// Reads the guarantees that a workload requests; their keys are UUIDs of devices. Fails with E1521.
Result<std::map<std::string, Bytes>> guarantees_of(const json& body) {
  std::map<std::string, Bytes> wanted;
  const auto found = body.find("guarantees");
  if (found == body.end() || found->is_null()) return wanted;
  const char* fix = R"("guarantees": {"GPU-…": 4294967296})";
  if (!found->is_object())
    return fail("E1521", "'guarantees' is not an object that gives a number of bytes for each device.", fix, 2);
  for (const auto& [uuid, bytes] : found->items()) {
    if (!bytes.is_number_unsigned())
      return fail("E1521", fmt::format("'guarantees': the entry for {} is not a number of bytes.", uuid), fix, 2);
    wanted[uuid] = std::min(Bytes{bytes.get<std::uint64_t>()}, kUnlimited);
  }
  return wanted;
}

/// The request that `ration run` sends before it makes its book.
struct Registration {
  std::string folder, tenant, labels, lease, book, slice;
  std::string recording;                    ///< the file to which the run would be recorded
  std::map<std::string, Bytes> guarantees;  ///< by the UUID of the device
  bool book_is_made = false;
  std::vector<std::string> devices;
  http::Peer person;  ///< the user who is charged: the sender of the request, or the user for whom root starts a job
};

/// Reads a registration. Fails with E1521, or with E1523 if the user is unknown.
Result<Registration> registration_of(const Request& request) {
  RATION_TRY(const auto body, body_of(request));
  if (!request.peer.uid)
    return fail("E1523",
                "this request does not show which user sent it, and workloads must register on the daemon's socket.",
                "ration run --limit SIZE -- …", 5);
  Registration registration;
  for (auto [key, field] : {std::pair{"folder", &registration.folder},
                            {"tenant", &registration.tenant},
                            {"labels", &registration.labels},
                            {"lease", &registration.lease},
                            {"book", &registration.book},
                            {"slice", &registration.slice},
                            {"recording", &registration.recording}}) {
    RATION_TRY(*field, text_field(body, key));
  }
  RATION_TRY(registration.guarantees, guarantees_of(body));
  RATION_TRY(registration.book_is_made, flag_field(body, "made"));
  RATION_TRY(registration.devices, list_field(body, "devices"));
  RATION_TRY(const auto user, number_field(body, "user", 0, std::numeric_limits<std::uint32_t>::max()));
  registration.person = request.peer;
  if (user && request.peer.uid == 0U) registration.person.uid = static_cast<std::uint32_t>(*user);
  return registration;
}

/// Checks that the node can keep every guarantee of `registration`, and that a lease or the tenant's own guarantee
/// entitles the user to these guarantees.
Result<void> check_guarantees(ApiHost& host, const Request& request, const Registration& registration,
                              const std::string& tenant) {
  if (registration.guarantees.empty()) return {};
  tick_before_change(host, request);  // releases the guarantees of workloads that have ended
  const Moment& moment = host.moment();
  const Subjects& subjects = host.subjects();
  for (const DeviceView& device : moment.snapshot.devices) {
    const auto more = registration.guarantees.find(device.device.uuid);
    if (more == registration.guarantees.end()) continue;
    // The claim already holds the guarantee of its containers.
    if (!subjects.claims.of_workload(*request.peer.uid, registration.labels, device.device.uuid).empty()) continue;
    const Bytes leased = host.leases().granted(registration.lease, *request.peer.uid, device.device.index);
    if (!viewer_of(request.peer).is_operator && more->second > leased) {
      RATION_TRY(subjects.promises.may_promise(moment, device, tenant, more->second, registration.slice));
    }
    RATION_TRY(subjects.promises.can_promise(moment, device, tenant, more->second, "", registration.slice));
  }
  return {};
}

/// Returns the path of the registration's book as the daemon reads it. Returns an empty text if the book does not lie
/// in the registered folder.
std::string book_of(const Registration& registration) {
  if (!registration.book.starts_with(registration.folder + "/books/")) return "";
  return real_path(registration.folder) + registration.book.substr(registration.folder.size());
}

/// Marks the lease that `registration` names, if any, as running. Fails with E1524 or E1530.
Result<void> take_up_lease(ApiHost& host, const Request& request, const Registration& registration) {
  if (registration.lease.empty()) return {};
  const std::string book = book_of(registration);
  if (book.empty())
    return fail("E1530", "the book of a lease must lie in the folder that is registered.",
                "ration run --wait --limit SIZE -- …", 2);
  if (host.leases().mark_running(registration.lease, book, *request.peer.uid)) return {};
  return fail("E1524", fmt::format("lease {} is not granted to you.", registration.lease),
              "ration run --wait --limit SIZE -- …", 4);
}

/// Returns true if the run's book has been read and its policy asks for a recording.
bool is_to_be_recorded(ApiHost& host, const Request& request, const Registration& registration) {
  if (registration.recording.empty()) return false;
  const auto& workloads = host.moment().registry.workloads();
  const auto found = workloads.find(book_of(registration));
  if (found == workloads.end() || found->second.owner != *request.peer.uid) return false;
  const config::Policy* policy = host.subjects().limits.policies.of(host.moment(), found->second);
  return policy != nullptr && policy->record.value &&
         host.subjects().recordings.expect(found->second, event_subject(host.moment(), found->second),
                                           registration.recording);
}

struct Registered {
  std::string tenant;  ///< the tenant that is charged
  bool recorded = false;
};

/// Checks that the daemon may read the workload's books and can keep its guarantees, then registers the workload.
Result<Registered> register_workload(ApiHost& host, const Request& request) {
  RATION_TRY(const auto registration, registration_of(request));
  RATION_TRY(host.engine().check_devices(registration.devices));
  RATION_TRY(host.engine().watch(registration.folder, *request.peer.uid));
  RATION_TRY(const auto assigned,
             config::tenant_for(host.engine().configuration(),
                                subject_of(registration.person, registration.tenant, registration.labels)));
  RATION_TRY(check_guarantees(host, request, registration, assigned.tenant));
  RATION_TRY(take_up_lease(host, request, registration));
  host.subjects().allowed.add(*registration.person.uid, assigned.tenant);
  if (registration.book_is_made)
    host.tick_now();
  else
    host.tick_soon();
  return Registered{assigned.tenant, registration.book_is_made && is_to_be_recorded(host, request, registration)};
}

/// Begins to suspend, resume, trim or stop a workload; `action` is the last part of the path.
Result<std::string> move_workload(ApiHost& host, const Request& request, const std::string& action) {
  const Moment& moment = host.moment();
  Residency& residency = host.subjects().residency;
  const std::string& name = request.captures.at("name");
  tick_before_change(host, request);
  const Caller caller = caller_of(request);
  Events events;
  bool kill = false;
  if (action == "stop") {
    // A page in a browser, which has a token alone, must not end programs.
    if (!request.peer.uid)
      return fail("E1523", "a workload must be stopped on the socket, where the daemon knows the user.",
                  "ration stop WORKLOAD", 5);
    RATION_TRY(const auto body, body_of(request));
    RATION_TRY(kill, flag_field(body, "kill"));
  }
  RATION_TRY(action == "suspend"  ? suspend(moment, residency, name, caller, events)
             : action == "resume" ? resume(moment, residency, name, caller)
             : action == "trim"   ? trim(moment, residency, name, caller)
                                  : stop(moment, name, caller, kill));
  host.record(std::move(events));
  host.tick_soon();
  const auto named = moment.registry.named(name, caller.user);
  return named ? (*named)->book.name : name;
}

}  // namespace

void Api::install_changes() {
  for (const auto& [action, state] :
       {std::pair{"suspend", "suspending"}, {"resume", "resuming"}, {"trim", "trimming"}, {"stop", "stopping"}}) {
    server_.route(
        "POST", fmt::format("/api/v1/workloads/{{name}}/{}", action),
        [this, action = std::string(action), state = std::string(state)](const Request& request) -> Result<Response> {
          RATION_TRY(const auto workload, move_workload(host_, request, action));
          return answer("moving", {{"workload", workload}, {"state", state}}, 202);
        });
  }

  server_.route("POST", "/api/v1/workloads", [this](const Request& request) -> Result<Response> {
    RATION_TRY(const auto registered, register_workload(host_, request));
    return answer("registered", {{"tenant", registered.tenant}, {"recorded", registered.recorded}});
  });

  server_.route("POST", "/api/v1/reload", [this](const Request& request) -> Result<Response> {
    if (!viewer_of(request.peer).is_operator)
      return fail("E1502", "you may not reload the configuration.", "Ask root or a member of group ration.", 5);
    RATION_TRY(const auto lines, host_.reload());
    return answer("reload", {{"changes", lines}});
  });
}

}  // namespace ration::node
