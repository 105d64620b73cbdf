// `ration why`: explains a denial, an event or a place in the queue.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "admission/denials.hpp"
#include "base/time.hpp"
#include "cli/session/node_client.hpp"
#include "cli/session/other_versions.hpp"
#include "cli/start/admission.hpp"
#include "cli/text/fields.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

void print_fix(const Session& session, const nlohmann::json& event) {
  if (event.at("fix").is_string()) fmt::print("fix      {}\n", session.hint(event["fix"].get<std::string>()));
}

/// Prints a denial. `source` goes to print_json().
int show_denial(const Session& session, const nlohmann::json& denial, const nlohmann::json& source) {
  if (session.format() == Format::kJson) {
    session.print_json("why", denial, source);
    return 0;
  }
  const nlohmann::json& pid = denial.at("pid");
  fmt::print("DENIED   {}  {}/{}{}  {}  {}\n", denial.at("time").get<std::string>(), denial.value("tenant", ""),
             denial.value("workload", ""), pid.is_number() ? fmt::format(" (pid {})", pid.get<int>()) : "",
             session.size(Bytes{denial.value("bytes", std::uint64_t{0})}), denial.value("function", ""));
  fmt::print("because  {}\n", denial.value("because", denial.at("text").get<std::string>()));
  if (const std::string other = denial.value("not_because", ""); !other.empty())
    fmt::print("not because  {}\n", other);
  else if (denial.value("reason", "") == "limit" && denial.at("device_free_bytes").is_null())
    fmt::print("free     n/a ({})\n", denial.value("device_free_bytes_na", ""));
  if (const double waited = denial.value("waited_seconds", 0.0); waited > 0)
    fmt::print("after    waiting {}\n", format_duration(static_cast<std::uint64_t>(waited * 1e9)));
  print_fix(session, denial);
  return 0;
}

Result<nlohmann::json> denial_at(NodeAccess& node, const std::string& id) {
  return node.get("/api/v1/denials/" + percent_encoded(id));
}

/// Returns the book of a run; absent if this user has none.
std::optional<book::StoredBook> book_of(const Session& session, std::uint64_t run) {
  if (const auto store = session.store())
    for (auto& stored : store->list())
      if (stored.contents.run_number == run) return std::move(stored);
  return std::nullopt;
}

/// Returns the command that raises the limit of an ended run's tenant; empty if the tenant's limit has room for the
/// denied request.
std::string tenant_fix(NodeAccess& node, const nlohmann::json& denial) {
  const auto tenants = node.get("/api/v1/tenants");
  if (!tenants || denial.value("reason", "") != "limit" || !denial.value("gpu", json()).is_number()) return "";
  const Bytes needed = bytes_in(denial, "used_bytes") + bytes_in(denial, "requested_bytes");
  for (const json& each : *tenants)
    for (const json& row : each.at("accounts")) {
      if (each.at("tenant") != denial.at("tenant") || row.at("gpu") != denial["gpu"]) continue;
      const Bytes limit = row.at("limit_bytes").is_number() ? bytes_in(row, "limit_bytes") : kUnlimited;
      if (needed <= limit) continue;
      const int gpu = denial["gpu"];
      return admission::limit_fix("", needed, {limit, {}, gpu, false, {each.at("tenant"), limit}}).text;
    }
  return "";
}

/// Returns the command for an ended run whose request exceeds the limit of a policy or claim, which no option of the
/// run raises; empty if it does not.
std::string policy_fix(const nlohmann::json& denial) {
  const json because = denial.value("because_message", json::object());
  const json reason = because.value("arguments", json::object()).value("reason", json());
  if (!reason.is_object()) return "";
  const std::string id = reason.value("message_id", "");
  if (!id.starts_with("limit.policy") && id != "limit.claim") return "";
  const Bytes limit = bytes_in(reason.at("arguments"), "limit_bytes");
  const Bytes needed = bytes_in(denial, "used_bytes") + bytes_in(denial, "requested_bytes");
  if (needed <= limit) return "";
  const json gpu = denial.value("gpu", json());
  return admission::limit_fix("", needed,
                              {limit,
                               {},
                               gpu.is_number() ? std::optional(gpu.get<int>()) : std::nullopt,
                               false,
                               {},
                               reason.value("text", ""),
                               id == "limit.claim"})
      .text;
}

/// Explains a denial by its number, with the limit that would admit it now.
Result<int> why_denial(const Session& session, const admission::DenialId& number, const std::string& id) {
  RATION_TRY(auto node, NodeAccess::open(session));
  const auto book = book_of(session, number.run);
  const Session about = book ? session.about(book->contents) : session;
  RATION_TRY(const auto books, LocalAccess::open(about));
  const auto own = denial_at(*books, id);
  if (!node->is_daemon() && !own) return tl::unexpected(own.error());
  auto recorded = node->is_daemon() ? denial_at(*node, id) : own;
  // The daemon knows why a limit was lowered, and keeps denials that the books no longer have. But its denial with this
  // number may belong to another run, since the runs of each user are numbered from 1 again after every boot.
  const bool same =
      recorded && own && recorded->at("time") == own->at("time") && recorded->at("workload") == own->at("workload");
  if (own && !same) return show_denial(about, *own, json::object());
  if (!recorded) return tl::unexpected(recorded.error());
  if (own && !book->live) {
    std::string others = policy_fix(*recorded);
    if (others.empty() && node->is_daemon()) others = tenant_fix(*node, *recorded);
    // Takes the fix from the book, because only the book has the command line of an ended run.
    recorded->at("fix") = others.empty() ? own->at("fix") : json(others);
  }
  return show_denial(about, *recorded, node->source());
}

/// Explains an event by the events that led to it, or a denial as why_denial() does.
Result<int> why_event(const Session& session, const std::string& number) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  RATION_TRY(const auto event, daemon.get("/api/v1/events/" + number + "/why"));
  if (event.at("denial").is_string()) {
    const std::string id = event.at("denial");
    const auto recorded = denial_at(daemon, number), of_that_name = denial_at(daemon, id);
    if (!recorded) return tl::unexpected(recorded.error());
    const auto own = admission::parse_denial_id(id);
    if (own && of_that_name && of_that_name->at("id") == recorded->at("id")) return why_denial(session, *own, id);
    return show_denial(session, *recorded, daemon.source());
  }
  if (session.format() == Format::kJson) {
    session.print_json("event_why", event, {{"source", "daemon"}});
    return 0;
  }
  std::string type = event.at("type");
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char letter) { return std::toupper(letter); });
  fmt::print("{:<8} {}  event {}\n", type, event.at("time").get<std::string>(), event.at("id").get<std::int64_t>());
  fmt::print("because  {}\n", event.at("text").get<std::string>());
  for (const nlohmann::json& each : event.at("before"))
    fmt::print("before   {}  {} {}: {}\n", each.at("time").get<std::string>(), each.at("id").get<std::int64_t>(),
               each.at("type").get<std::string>(), each.at("text").get<std::string>());
  print_fix(session, event);
  return 0;
}

/// Explains a place in the queue, waiting or granted.
Result<int> why_lease(const Session& session, const std::string& id) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  RATION_TRY(const auto lease, daemon.get("/api/v1/leases/" + percent_encoded(id)));
  if (session.format() == Format::kJson) {
    session.print_json("lease", lease, {{"source", "daemon"}});
    return 0;
  }
  const std::string state = lease.at("state");
  const json named = lease.value("name", json());
  const std::string name = named.is_string() ? "/" + named.get<std::string>() : "";
  fmt::print("{}  {}  {}{}  {}\n", state == "waiting" ? "WAITING " : "GRANTED ", id, lease.value("tenant", ""), name,
             session.size(Bytes{lease.value("bytes", std::uint64_t{0})}));
  if (state != "waiting") return 0;
  fmt::print("because  {}\n", lease.value("reason", "its turn comes with the next tick"));
  fmt::print("{}", holders_line(session, lease, "taken by "));
  fmt::print("position {} of {}\n", lease.value("position", 0), lease.value("of", 0));
  if (lease.at("estimate_seconds").is_number())
    fmt::print("estimate about {} (the median of {} waits)\n",
               format_duration(lease.at("estimate_seconds").get<std::uint64_t>() * 1'000'000'000),
               lease.value("estimate_of", 0));
  else
    fmt::print("estimate n/a ({})\n", lease.value("estimate_seconds_na", "not known"));
  fmt::print(
      "fix      {}   shows who holds what; with a smaller --limit or another --gpu, the run might start sooner\n",
      session.hint("ration ps"));
  return 0;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

struct Newest {
  std::string id, time;
};

Result<Newest> newest_in_books(const Session& session, const std::string& own) {
  RATION_TRY(const auto store, session.store());
  std::uint64_t newest = 0;
  Newest found;
  for (const auto& stored : store.list()) {
    if (!own.empty() && stored.contents.name != own) continue;
    for (const auto& denial : stored.contents.denials)
      if (denial.time_ns >= newest)
        newest = denial.time_ns,
        found = {fmt::format("d-{}-{}", stored.contents.run_number, denial.sequence), utc(denial.time_ns)};
  }
  return found;
}

/// Returns the number of the newest denial of all, or of one workload (NAME, TENANT/NAME or USER/NAME). This is the
/// number of the daemon's event. If the books have a newer denial, because the daemon has not ticked since, it is that
/// denial's number. Fails with E1413.
Result<std::string> newest_denial(const Session& session, const std::string& workload) {
  RATION_TRY(auto daemon, NodeClient::find(session));
  const std::string own = workload.substr(workload.rfind('/') + 1);
  Newest newest;
  if (daemon) {
    RATION_TRY(const auto events, daemon->get("/api/v1/events?limit=1000&type=denied,waited" +
                                              (own.empty() ? "" : "&workload=" + percent_encoded(own))));
    // A wait that ended with the memory granted is no denial.
    for (const auto& event : events)
      if (event.at("denial").is_string())
        newest = {std::to_string(event.at("id").get<std::int64_t>()), event.at("time")};
  }
  RATION_TRY(const auto in_books, newest_in_books(session, own));
  if (in_books.time > newest.time) newest = in_books;
  if (!newest.id.empty()) return newest.id;
  if (const auto store = session.store(); store && !own.empty()) RATION_TRY(is_of_this_version(*store, own));
  return fail(
      "E1413",
      workload.empty() ? "nothing was denied." : fmt::format("no denial of a workload '{}' is recorded.", workload),
      "ration ps   shows who holds how much. TensorFlow and JAX themselves deny requests above the total that they saw "
      "at their start",
      3);
}

}  // namespace

Result<int> why(const Session& session, const std::string& what) {
  std::string id = what;
  if (const std::string lease = lease_waiting_as(session, what); !lease.empty()) return why_lease(session, lease);
  if (what.empty() || (!admission::is_number_of_something(what) && what.rfind("d-", 0) != 0)) {
    RATION_TRY(auto newest, newest_denial(session, what));
    id = std::move(newest);
  }
  if (is_number(id)) return why_event(session, id);
  if (id.rfind("e-", 0) == 0 && is_number(id.substr(2))) return why_event(session, id.substr(2));
  if (id.rfind("q-", 0) == 0 && is_number(id.substr(2))) return why_lease(session, id);
  const auto wanted = admission::parse_denial_id(id);
  if (!wanted) {
    return fail("E1412", fmt::format("'{}' is not the number of a denial, an event or a place in the queue.", id),
                "Such numbers look like d-17-3 (ration ps, or the last line of the run), 42 (ration events) or q-5.",
                2);
  }
  return why_denial(session, *wanted, id);
}

}  // namespace ration::cli
