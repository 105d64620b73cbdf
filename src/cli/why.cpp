// `ration why`: one denial, event or wait in the queue, explained.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/admission.hpp"
#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/other_versions.hpp"
#include "cli/verbs.hpp"
#include "policy/denials.hpp"

namespace ration::cli {
namespace {

void print_fix(const Session& session, const nlohmann::json& event) {
  if (event.at("fix").is_string()) fmt::print("fix      {}\n", session.hint(event["fix"].get<std::string>()));
}

/// As the daemon tells it.
int show_told(const Session& session, const nlohmann::json& event) {
  if (session.format() == Format::kJson) {
    session.print_json("why", event, {{"source", "daemon"}});
    return 0;
  }
  const nlohmann::json& pid = event.at("pid");
  fmt::print("DENIED   {}  {}/{}{}  {}  {}\n", event.at("time").get<std::string>(), event.value("tenant", ""),
             event.value("workload", ""), pid.is_number() ? fmt::format(" (pid {})", pid.get<int>()) : "",
             session.size(Bytes{event.value("bytes", std::uint64_t{0})}), event.value("function", ""));
  fmt::print("because  {}\n", event.value("because", event.at("text").get<std::string>()));
  if (const std::string other = event.value("not_because", ""); !other.empty()) fmt::print("not because  {}\n", other);
  if (const double waited = event.value("waited_seconds", 0.0); waited > 0)
    fmt::print("after    waiting {}\n", format_duration(static_cast<std::uint64_t>(waited * 1e9)));
  print_fix(session, event);
  return 0;
}

Result<nlohmann::json> told_by(NodeClient& daemon, const std::string& id) {
  return daemon.get("/api/v1/denials/" + percent_encoded(id));
}

/// As a book of this user has it.
int show_book(const Session& session, const ledger::BookSnapshot& book, bool live, const ledger::Denial& denial) {
  const bool told = denial.device_free != ledger::kUnknownBytes;
  const auto explained =
      policy::explain_denial(denial, book, live, live ? room_for(session, book, denial) : std::nullopt,
                             device_index(session), session.display_units());
  if (session.format() == Format::kJson) {
    nlohmann::json data{{"denial", explained.id},
                        {"time", utc(denial.time_ns)},
                        {"workload", book.name},
                        {"tenant", book.tenant},
                        {"pid", denial.pid},
                        {"requested_bytes", denial.requested.count()},
                        {"used_bytes", denial.used.count()},
                        {"limit_bytes", denial.limit.count()},
                        {"function", denial.function},
                        {"reason", explained.reason},
                        {"because", explained.because},
                        {"fix", explained.fix}};
    if (told)
      data["device_free_bytes"] = denial.device_free;
    else
      data.update({{"device_free_bytes", nullptr}, {"device_free_bytes_na", "the driver did not say"}});
    session.print_json("why", data);
    return 0;
  }
  fmt::print("DENIED   {}  {}/{} (pid {})  {}  {}\n", utc(denial.time_ns), book.tenant, book.name, denial.pid,
             session.size(denial.requested), denial.function);
  fmt::print("because  {}\n", explained.because);
  if (!explained.not_because.empty())
    fmt::print("not because  {}\n", explained.not_because);
  else if (denial.reason == ledger::DenialReason::kLimit)
    fmt::print("free     n/a (the driver did not say)\n");
  if (denial.waited_ns > 0) fmt::print("after    waiting {}\n", format_duration(denial.waited_ns));
  fmt::print("fix      {}\n", session.hint(explained.fix));
  return 0;
}

/// Anything else that happened: the event, and what led to it.
Result<int> why_event(const Session& session, const std::string& number) {
  auto daemon = NodeClient::require(session);
  if (!daemon) return tl::unexpected(daemon.error());
  const auto event = daemon->get("/api/v1/events/" + number + "/why");
  if (!event) return tl::unexpected(event.error());
  if (event->at("denial").is_string()) {
    auto told = told_by(*daemon, number);
    if (!told) return tl::unexpected(told.error());
    // Asked by its own name, a denial of this user's says what would be granted now.
    const auto now = told_by(*daemon, event->at("denial").get<std::string>());
    if (now && now->at("id") == told->at("id")) told->at("fix") = now->at("fix");
    return show_told(session, *told);
  }
  if (session.format() == Format::kJson) {
    session.print_json("event_why", *event, {{"source", "daemon"}});
    return 0;
  }
  std::string type = event->at("type");
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char letter) { return std::toupper(letter); });
  fmt::print("{:<8} {}  event {}\n", type, event->at("time").get<std::string>(), event->at("id").get<std::int64_t>());
  fmt::print("because  {}\n", event->at("text").get<std::string>());
  for (const nlohmann::json& each : event->at("before"))
    fmt::print("before   {}  {} {}: {}\n", each.at("time").get<std::string>(), each.at("id").get<std::int64_t>(),
               each.at("type").get<std::string>(), each.at("text").get<std::string>());
  print_fix(session, *event);
  return 0;
}

/// Somebody in the queue, or with a place that was granted.
Result<int> why_lease(const Session& session, const std::string& id) {
  auto daemon = NodeClient::require(session);
  if (!daemon) return tl::unexpected(daemon.error());
  const auto lease = daemon->get("/api/v1/leases/" + percent_encoded(id));
  if (!lease) return tl::unexpected(lease.error());
  if (session.format() == Format::kJson) {
    session.print_json("lease", *lease, {{"source", "daemon"}});
    return 0;
  }
  const std::string state = lease->at("state");
  fmt::print("{}  {}  {}  {}\n", state == "waiting" ? "WAITING " : "GRANTED ", id, lease->value("tenant", ""),
             session.size(Bytes{lease->value("bytes", std::uint64_t{0})}));
  if (state != "waiting") return 0;
  fmt::print("because  {}\n", lease->value("reason", "its turn comes with the next look"));
  fmt::print("{}", takers_line(session, *lease, "taken by "));
  fmt::print("position {} of {}\n", lease->value("position", 0), lease->value("of", 0));
  if (lease->at("estimate_seconds").is_number())
    fmt::print("estimate about {} (the median of {} waits)\n",
               format_duration(lease->at("estimate_seconds").get<std::uint64_t>() * 1'000'000'000),
               lease->value("estimate_of", 0));
  else
    fmt::print("estimate n/a ({})\n", lease->value("estimate_seconds_na", "not known"));
  fmt::print("fix      {}   shows who holds what; a smaller --limit, or another --gpu, may start sooner\n",
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
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  std::uint64_t newest = 0;
  Newest found;
  for (const auto& stored : store->list()) {
    if (!own.empty() && stored.contents.name != own) continue;
    for (const auto& denial : stored.contents.denials)
      if (denial.time_ns >= newest)
        newest = denial.time_ns,
        found = {fmt::format("d-{}-{}", stored.contents.run_number, denial.sequence), utc(denial.time_ns)};
  }
  return found;
}

/// Of all, or of one workload (its own name, TENANT/NAME or USER/NAME): an event's number from the daemon, or a
/// denial's from the books where that is newer: the daemon spares itself a look where many ask. E1413.
Result<std::string> newest_denial(const Session& session, const std::string& workload) {
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  const std::string own = workload.substr(workload.rfind('/') + 1);
  Newest newest;
  if (*daemon) {
    const auto events = (*daemon)->get("/api/v1/events?limit=1&type=denied,waited" +
                                       (own.empty() ? "" : "&workload=" + percent_encoded(own)));
    if (!events) return tl::unexpected(events.error());
    if (!events->empty())
      newest = {std::to_string(events->back().at("id").get<std::int64_t>()), events->back().at("time")};
  }
  const auto in_books = newest_in_books(session, own);
  if (!in_books) return tl::unexpected(in_books.error());
  if (in_books->time > newest.time) newest = *in_books;
  if (!newest.id.empty()) return newest.id;
  if (const auto store = session.store(); store && !own.empty())
    if (auto readable = is_of_this_version(*store, own); !readable) return tl::unexpected(readable.error());
  return fail("E1413",
              workload.empty() ? "nothing was denied."
                               : fmt::format("nothing of a workload '{}' was denied, as far as is known.", workload),
              "ration ps", 3);
}

}  // namespace

Result<int> why(const Session& session, const std::string& what) {
  std::string id = what;
  if (what.empty() || (!policy::is_number_of_something(what) && what.rfind("d-", 0) != 0)) {
    auto newest = newest_denial(session, what);
    if (!newest) return tl::unexpected(newest.error());
    id = std::move(*newest);
  }
  if (is_number(id)) return why_event(session, id);
  if (id.rfind("e-", 0) == 0 && is_number(id.substr(2))) return why_event(session, id.substr(2));
  if (id.rfind("q-", 0) == 0 && is_number(id.substr(2))) return why_lease(session, id);
  const auto wanted = policy::parse_denial_id(id);
  if (!wanted) {
    return fail("E1412", fmt::format("'{}' is not the number of a denial, an event or a place in the queue.", id),
                "They look like d-17-3 (ration ps, or the closing line of the run), 42 (ration events) or q-5.", 2);
  }
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  Result<nlohmann::json> told =
      fail("E1413", fmt::format("no run {} is on the books (the newest 32 that have ended are kept).", wanted->run),
           "ration ps", 3);
  if (*daemon) told = told_by(**daemon, id);
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  for (const auto& stored : store->list()) {
    const auto& book = stored.contents;
    if (book.run_number != wanted->run) continue;
    for (const auto& denial : book.denials) {
      if (denial.sequence != wanted->number) continue;
      // The daemon knows for whom a limit was lowered; but every user numbers their own, anew at each boot.
      const bool same = told && told->at("time") == utc(denial.time_ns) && told->at("workload") == book.name;
      return same ? show_told(session, *told) : show_book(session.about(book), book, stored.live, denial);
    }
    if (told) break;  // the daemon keeps what the books no longer have
    return fail("E1413",
                fmt::format("run {} ({}) has no denial {}: it was denied {} times, and the newest 256 are kept.",
                            wanted->run, book.name, id, book.denial_count),
                "ration ps", 3);
  }
  if (!told) return tl::unexpected(told.error());
  return show_told(session, *told);
}

}  // namespace ration::cli
