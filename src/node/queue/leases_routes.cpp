// Serves the paths of the queue.
#include "node/queue/leases_routes.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/clock.hpp"
#include "base/command.hpp"
#include "base/message_json.hpp"
#include "base/printable.hpp"
#include "base/say.hpp"
#include "base/time.hpp"
#include "base/units.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/queue/lease_json.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

Result<Bytes> size_field(const json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return Bytes{0};
  if (found->is_number_unsigned()) return Bytes{found->get<std::uint64_t>()};
  return fail("E1521", fmt::format("'{}' is not a number of bytes.", name), fmt::format(R"("{}": 4294967296)", name),
              2);
}

const char* word_for(LeaseState state) {
  constexpr const char* kNames[] = {"waiting", "granted", "running", "suspended", "over"};
  return kNames[static_cast<std::size_t>(state)];
}

json occupants_json(const std::vector<Occupant>& occupants) {
  json rows = json::array();
  for (const Occupant& occupant : occupants) {
    rows.push_back({{"who", occupant.who}, {"taken_bytes", occupant.taken.count()}});
    if (occupant.used) rows.back()["used_bytes"] = occupant.used->count();
  }
  return rows;
}

}  // namespace

json lease_json(const LeaseView& lease, const Viewer& viewer) {
  json row{{"lease", lease.id},
           {"tenant", lease.submission.tenant},
           {"user", lease.submission.user},
           {"name", lease.submission.name.empty() ? json(nullptr) : json(lease.submission.name)},
           {"bytes", lease.submission.bytes.count()},
           {"gpu", lease.submission.gpu.empty() ? "auto" : lease.submission.gpu},
           {"priority", lease.submission.priority},
           {"since", utc(lease.submitted_ns)},
           {"state", word_for(lease.state)}};
  if (lease.submission.name.empty()) put_message(row, "name_na", fixed<"unknown.lease_name">());
  const bool sees = viewer.may_see(lease.submission.owner);
  row["command"] = sees ? json(lease.submission.command) : json(nullptr);
  if (!sees) put_message(row, "command_na", kNotYours);
  if (lease.gpus) row["gpus"] = *lease.gpus;
  if (!lease.reason.empty()) put_message(row, "reason", lease.reason);
  if (lease.taken_by) row["taken_by"] = occupants_json(*lease.taken_by);
  if (lease.state != LeaseState::kWaiting) return row;
  row["position"] = lease.position;
  row["of"] = lease.of;
  const std::uint64_t now_ns = unix_time_ns();
  row["waited_seconds"] = (now_ns - std::min(now_ns, lease.submitted_ns)) / kSecond;
  if (lease.estimate->median_ns) {
    row["estimate_seconds"] = *lease.estimate->median_ns / kSecond;
    row["estimate_of"] = lease.estimate->count;
  } else {
    row["estimate_seconds"] = nullptr;
    put_message(row, "estimate_seconds_na", lease.estimate->unknown_reason);
  }
  return row;
}

json waiting_json(const Leases& leases, const Viewer& viewer) {
  json rows = json::array();
  if (viewer.totals_only) return rows;
  for (LeaseView& lease : leases.waiting_views()) {
    lease.taken_by.reset();  // the rows of the devices list the occupants
    rows.push_back(lease_json(lease, viewer));
  }
  return rows;
}

namespace {

/// Reads the fields of a request for a lease that do not depend on the node. Fails with E1407, E1521 or E1525.
Result<LeaseSubmission> submission_of(const Request& request, const json& body) {
  LeaseSubmission submission;
  submission.owner = *request.peer.uid;
  submission.user = machine::user_name(submission.owner);
  const auto identity = identity_of(*request.peer.pid);
  if (!identity)
    return fail("E1525", "the requesting process is not visible from here.",
                "Send the request from the host, or give the container the host's pid namespace.", 1);
  submission.waiter = *identity;
  for (auto [key, field] : {std::pair{"tenant", &submission.tenant},
                            {"command", &submission.command},
                            {"gpu", &submission.gpu},
                            {"key", &submission.key},
                            {"name", &submission.name}}) {
    RATION_TRY(*field, text_field(body, key));
  }
  constexpr std::size_t kMaxGpus = 64;
  if (submission.gpu.size() > kMaxGpus) return fail("E1407", "too many GPUs.", "--gpu auto, --gpu 0 or --gpu 0,1", 2);
  constexpr std::size_t kMaxKey = 64;
  if (submission.key.size() > kMaxKey)
    return fail("E1521", "'key' is too long.", fmt::format("at most {} bytes", kMaxKey), 2);
  for (std::string* shown : {&submission.command, &submission.name}) {
    shown->resize(std::min(shown->size(), kCommandCompared));
    *shown = printable(std::move(*shown));
  }
  for (auto [key, field] : {std::pair{"bytes", &submission.bytes}, {"guarantee", &submission.guarantee}}) {
    RATION_TRY(*field, size_field(body, key));
  }
  RATION_TRY(const auto wait, text_field(body, "wait"));
  if (!wait.empty()) {
    RATION_TRY(submission.wait_ns, parse_duration(wait));
  }
  return submission;
}

/// Returns the requested priority. Only an operator may exceed the tenant's priority. The request of any other user is
/// lowered to the tenant's priority. Fails with E1521.
Result<int> priority_of(const json& body, const Viewer& viewer, int of_tenant) {
  constexpr std::int64_t kHighest = std::numeric_limits<std::int32_t>::max();
  RATION_TRY(const auto priority, number_field(body, "priority", -kHighest, kHighest));
  if (!priority) return of_tenant;
  const int asked = static_cast<int>(std::clamp<std::int64_t>(*priority, -1000, 1000));
  return viewer.is_operator ? asked : std::min(asked, of_tenant);
}

/// Checks that the user may have the guarantee on some device. Fails as may_promise() does.
Result<void> check_guarantee(const Moment& moment, const DevicePromises& promises, const LeaseSubmission& submission,
                             const Viewer& viewer) {
  if (submission.guarantee == Bytes{0} || viewer.is_operator) return {};
  Result<void> somewhere;
  for (const DeviceView& device : moment.snapshot.devices)
    if (somewhere = promises.may_promise(moment, device, submission.tenant, submission.guarantee, ""); somewhere) break;
  return somewhere;
}

/// Queues the request, and returns its lease, waiting or granted.
Result<LeaseView> submit(RouteHost& host, const Moment& moment, Leases& leases, const DevicePromises& promises,
                         const Schedules& schedules, const Request& request) {
  RATION_TRY(const auto body, body_of(request));
  if (!request.peer.uid || !request.peer.pid)
    return fail("E1523", "leases must be requested on the socket, where the daemon knows the user.",
                "ration run --wait --limit SIZE -- …", 5);
  RATION_TRY(auto submission, submission_of(request, body));
  const config::Configuration& configuration = moment.configuration;
  RATION_TRY(const auto assigned, config::tenant_for(configuration, subject_of(request.peer, submission.tenant, "")));
  submission.tenant = assigned.tenant;
  for (const config::Tenant& tenant : configuration.tenants)
    if (tenant.name.value == submission.tenant) submission.priority = static_cast<int>(tenant.priority.value);
  submission.limit_is_scheduled = schedules.set_limit_of(submission.tenant, configuration);
  const Viewer viewer = viewer_of(request.peer);
  RATION_TRY(submission.priority, priority_of(body, viewer, submission.priority));
  RATION_TRY(check_guarantee(moment, promises, submission, viewer));
  // Submits with the current time, since the last tick may be earlier than the request.
  const bool known = leases.knows(submission);
  RATION_TRY(const auto id, leases.submit(submission, steady_time_ns()));
  host.tick_now();
  const auto lease = leases.view(id);
  if (!lease)  // the lease was restored, but the devices were not queried yet
    return fail("E1522", "the devices cannot be queried yet.", "Retry in a second.", 1);
  if (lease->state == LeaseState::kWaiting && !known)
    host.record({queued_event({"", submission.tenant, submission.user, {}}, facts_of(id, submission),
                              lease->reason.empty() ? say<"lease.its_turn">() : lease->reason)});
  return *lease;
}

}  // namespace

void add_lease_routes(const AddRoute& add, RouteHost& host, const Moment& moment, Leases& leases,
                      const DevicePromises& promises, const Schedules& schedules) {
  add("GET", "/api/v1/leases", [&host, &leases](const Request& request) {
    return host.answer("leases", waiting_json(leases, viewer_of(request.peer)));
  });

  add("POST", "/api/v1/leases",
      [&host, &moment, &leases, &promises, &schedules](const Request& request) -> Result<Response> {
        const auto lease = submit(host, moment, leases, promises, schedules, request);
        if (!lease) return http::problem(lease.error(), lease.error().id == "E1522" ? 503 : 0);
        const bool waits = lease->state == LeaseState::kWaiting;
        return host.answer("lease", lease_json(*lease, viewer_of(request.peer)), waits ? 202 : 201);
      });

  add("GET", "/api/v1/leases/{id}", [&host, &leases](const Request& request) {
    const std::string& id = request.captures.at("id");
    const Viewer viewer = viewer_of(request.peer);
    if (const auto lease = leases.view(id)) return host.answer("lease", lease_json(*lease, viewer));
    if (const CancelledLease* gone = leases.cancelled(id); gone != nullptr && viewer.may_see(gone->owner))
      return http::problem({"E1549", say<"lease.removed">("lease"_is(id), "by"_is(gone->by)),
                            "ration run --wait … asks again, at the end of the queue", 4},
                           410);
    return http::problem({"E1526", fmt::format("there is no lease {}.", id), "ration ps", 3});
  });

  add("DELETE", "/api/v1/leases/{id}", [&host, &leases](const Request& request) {
    const Viewer viewer = viewer_of(request.peer);
    const std::string& id = request.captures.at("id");
    const std::string by = caller_of(request).name;
    const auto lease = leases.view(id);
    const bool known =
        viewer.is_operator ? leases.cancel(id, std::nullopt, by) : viewer.user && leases.cancel(id, viewer.user, by);
    if (!known) return http::problem({"E1526", fmt::format("you have no lease {}.", id), "ration ps", 3});
    if (lease && lease->state == LeaseState::kWaiting) {
      const std::uint64_t now_ns = unix_time_ns();
      host.record(
          {dequeued_event({"", lease->submission.tenant, lease->submission.user, {}}, facts_of(id, lease->submission),
                          now_ns - std::min(now_ns, lease->submitted_ns), say<"lease.left_removed">("by"_is(by)))});
    }
    Response response;
    response.status = 204;
    response.content_type.clear();
    return response;
  });
}

}  // namespace ration::node
