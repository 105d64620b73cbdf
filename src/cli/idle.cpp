// `ration trim`, `ration suspend`, `ration resume`: what to do about those who hold memory and do nothing.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/units.hpp"
#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"
#include "policy/checkpoint.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

struct Idler {
  std::string name, tenant;
  std::uint64_t idle_seconds = 0;
  Bytes used;
};

/// Running workloads that took and gave back nothing for so long, each once, the longest idle first.
Result<std::vector<Idler>> idlers(NodeClient& daemon, std::uint64_t seconds) {
  const auto rows = daemon.get("/api/v1/workloads");
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Idler> found;
  for (const json& row : *rows) {
    if (!row.at("governed").get<bool>() || row.at("idle_seconds").get<std::uint64_t>() < seconds) continue;
    const std::string name = row.at("user").get<std::string>() + "/" + row.at("workload").get<std::string>();
    const auto known = std::find_if(found.begin(), found.end(), [&](const Idler& each) { return each.name == name; });
    const Bytes used{row.at("used_bytes").get<std::uint64_t>()};
    if (known != found.end())
      known->used += used;
    else
      found.push_back({name, row.at("tenant"), row.at("idle_seconds"), used});
  }
  std::sort(found.begin(), found.end(),
            [](const Idler& left, const Idler& right) { return left.idle_seconds > right.idle_seconds; });
  return found;
}

std::string path_of(const std::string& name, const char* action) {
  return fmt::format("/api/v1/workloads/{}/{}", percent_encoded(name), action);
}

/// The number of the newest event.
Result<std::int64_t> newest_event(NodeClient& daemon) {
  const auto events = daemon.get("/api/v1/events?limit=1");
  if (!events) return tl::unexpected(events.error());
  return events->empty() ? 0 : events->back().at("id").get<std::int64_t>();
}

/// The first event of one of the types about the workload, after the one of number `after`.
Result<json> wait_for_event(NodeClient& daemon, const std::string& workload, std::int64_t after,
                            const std::vector<std::string>& types) {
  json found;
  const auto followed = daemon.stream(
      fmt::format("/api/v1/stream?topics=events&last_event_id={}", after), [&](const http::StreamEvent& received) {
        json event = json::parse(received.data, nullptr, false);
        if (received.name != "event" || !event.is_object() || event.value("workload", json()) != workload) return true;
        if (std::find(types.begin(), types.end(), event.at("type").get<std::string>()) == types.end()) return true;
        found = std::move(event);
        return false;
      });
  if (followed) return found;
  if (followed.error().id != "E1517") return tl::unexpected(followed.error());
  for (;;) {  // too many follow the stream: it is asked now and then
    auto events = daemon.get(fmt::format("/api/v1/events?since={}&type={}&workload={}", after, fmt::join(types, ","),
                                         percent_encoded(workload)));
    if (!events) return tl::unexpected(events.error());
    if (!events->empty()) return events->front();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

Result<int> tell(const Session& session, const char* schema, const json& rows) {
  if (session.format() == Format::kJson) session.print_json(schema, rows, {{"source", "daemon"}});
  return 0;
}

/// Asks, and waits for what comes of it.
Result<json> ask_and_wait(NodeClient& daemon, const std::string& name, const char* action,
                          const std::vector<std::string>& answers) {
  const auto newest = newest_event(daemon);
  if (!newest) return tl::unexpected(newest.error());
  const auto asked = daemon.post(path_of(name, action), json::object());
  if (!asked) return tl::unexpected(asked.error());
  return wait_for_event(daemon, asked->at("workload"), *newest, answers);
}

Result<int> move(const Session& session, NodeClient& daemon, const std::string& name, const char* action,
                 const std::vector<std::string>& answers) {
  const auto event = ask_and_wait(daemon, name, action, answers);
  if (!event) return tl::unexpected(event.error());
  if (event->at("type") == "ended") return fail("E1801", fmt::format("{} ended meanwhile.", name), "ration ps", 3);
  if (event->at("type") == "suspend_failed")
    return fail("E1547", event->at("text").get<std::string>() + ".",
                event->at("fix").is_string() ? event->at("fix").get<std::string>() : "ration events", 1);
  if (session.format() == Format::kText) fmt::print("{}\n", event->at("text").get<std::string>());
  return tell(session, action, json::array({*event}));
}

/// Without a daemon nobody else brings back what it left suspended.
Result<int> resume_alone(const Session& session, const std::string& name) {
  const auto store = ledger::Store::open();
  if (!store) return tl::unexpected(store.error());
  for (const Holder& holder : holders(*store)) {
    if (holder.book.name != name) continue;
    std::vector<ProcessIdentity> processes;
    for (const auto& process : holder.book.processes) processes.push_back(process.identity);
    const auto folder = session.driver_folder();
    if (!folder) return tl::unexpected(folder.error());
    if (const auto machine = session.machine(); machine && policy::is_on_device(*machine, processes))
      return fail("E1546", fmt::format("{} is not suspended.", name), "ration ps", 4);
    const auto done = policy::checkpoint(*folder, policy::CheckpointAction::kResume, processes);
    if (!done) return tl::unexpected(done.error());
    if (session.format() == Format::kText) fmt::print("{} is back on its device.\n", name);
    return tell(session, "resume", json::array({{{"workload", name}, {"state", "running"}}}));
  }
  return fail("E1801", fmt::format("no running workload is named '{}'.", name), "ration ps", 3);
}

}  // namespace

Result<int> suspend(const Session& session, const std::string& name) {
  auto daemon = NodeClient::require(session);
  if (!daemon) return tl::unexpected(daemon.error());
  return move(session, *daemon, name, "suspend", {"suspended", "suspend_failed", "ended"});
}

Result<int> resume(const Session& session, const std::string& name) {
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (!*daemon) return resume_alone(session, name);
  return move(session, **daemon, name, "resume", {"resumed", "suspend_failed", "ended"});
}

Result<int> trim(const Session& session, const TrimOptions& options) {
  auto daemon = NodeClient::require(session);
  if (!daemon) return tl::unexpected(daemon.error());
  std::vector<Idler> chosen{{options.name, {}, 0, {}}};
  if (options.name.empty()) {
    const auto seconds = parse_duration(options.idle.empty() ? "30m" : options.idle);
    if (!seconds) return tl::unexpected(seconds.error());
    const auto found = idlers(*daemon, *seconds / 1'000'000'000U);
    if (!found) return tl::unexpected(found.error());
    chosen = *found;
  }
  if (session.dry_run && !options.name.empty())
    if (const auto known = daemon->get("/api/v1/workloads/" + percent_encoded(options.name) + "/explain"); !known)
      return tl::unexpected(known.error());
  json rows = json::array();
  for (const Idler& each : chosen) {
    if (session.dry_run) {
      rows.push_back({{"workload", each.name}, {"idle_seconds", each.idle_seconds}, {"used_bytes", each.used.count()}});
      if (session.format() == Format::kText)
        fmt::print("would ask {}{}\n", each.name,
                   options.name.empty()
                       ? fmt::format(" (idle {}), which holds {}", format_duration(each.idle_seconds * 1'000'000'000U),
                                     session.size(each.used))
                       : std::string());
      continue;
    }
    const auto event = ask_and_wait(*daemon, each.name, "trim", {"trimmed", "ended"});
    if (!event) return tl::unexpected(event.error());
    rows.push_back(*event);
    if (session.format() == Format::kText) fmt::print("{}\n", event->at("text").get<std::string>());
  }
  if (chosen.empty() && session.format() == Format::kText)
    fmt::print("nobody was idle for {}.\n", options.idle.empty() ? "30m" : options.idle);
  return tell(session, "trim", rows);
}

}  // namespace ration::cli
