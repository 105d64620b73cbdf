// `ration trim`, `ration suspend`, `ration resume`: free the memory of idle workloads and bring it back.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "base/units.hpp"
#include "cli/session/node_client.hpp"
#include "cli/start/admission.hpp"
#include "cli/text/fields.hpp"
#include "cli/verbs/verbs.hpp"
#include "machine/checkpoint.hpp"
#include "machine/process_origin.hpp"
#include "machine/user_names.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

/// A running workload with the sums over its devices.
struct Idler {
  std::string user, workload, tenant;
  std::uint64_t run = 0, idle_seconds = 0;
  Bytes used, context, pooled;
  std::vector<std::int32_t> pids;
  std::string asked_as;  ///< name by which the daemon finds it
  [[nodiscard]] std::string name() const { return user + "/" + workload; }
};

/// Returns every running workload once, the longest idle first.
Result<std::vector<Idler>> workloads_of(NodeClient& daemon) {
  RATION_TRY(const auto rows, daemon.get("/api/v1/workloads"));
  std::vector<Idler> found;
  for (const json& row : rows) {
    if (row.at("governed") != true) continue;
    Idler idler{row.at("user"),
                row.at("workload"),
                row.at("tenant"),
                row.at("run"),
                row.at("idle_seconds"),
                {},
                {},
                {},
                {},
                {}};
    idler.asked_as = idler.name();
    auto known = std::find_if(found.begin(), found.end(),
                              [&](const Idler& each) { return each.name() == idler.name() && each.run == idler.run; });
    if (known == found.end()) known = found.insert(found.end(), std::move(idler));
    known->used += bytes_in(row, "used_bytes");
    known->context += bytes_in(row, "context_bytes"), known->pooled += bytes_in(row, "pooled_bytes");
    if (row.at("processes").is_array())
      for (const json& process : row["processes"]) known->pids.push_back(process.at("pid"));
  }
  std::sort(found.begin(), found.end(),
            [](const Idler& left, const Idler& right) { return left.idle_seconds > right.idle_seconds; });
  return found;
}

/// Returns the workload named by NAME, USER/NAME, TENANT/NAME or the number of its run. If several have that name,
/// returns only this user's. Returns the daemon's error if no workload has the name.
Result<std::vector<Idler>> one_named(NodeClient& daemon, const std::vector<Idler>& all, const std::string& name) {
  if (const auto known = daemon.get("/api/v1/workloads/" + percent_encoded(name) + "/explain"); !known)
    return tl::unexpected(known.error());
  std::vector<Idler> meant;
  std::copy_if(all.begin(), all.end(), std::back_inserter(meant), [&](const Idler& each) {
    return name == each.workload || name == each.name() || name == each.tenant + "/" + each.workload ||
           name == std::to_string(each.run);
  });
  const std::string self = machine::user_name(::getuid());
  if (meant.size() > 1) std::erase_if(meant, [&](const Idler& each) { return each.user != self; });
  for (Idler& each : meant) each.asked_as = name;
  return meant;
}

/// Returns true if a process has loaded ration's library, which answers a trim; absent if no process can be read.
std::optional<bool> cooperates(const std::vector<std::int32_t>& pids) {
  bool seen = false;
  for (const std::int32_t pid : pids) {
    const std::optional<bool> answers = machine::has_mapped(pid, "/libration.so");
    if (answers && *answers) return true;
    seen = seen || answers;
  }
  return seen ? std::optional(false) : std::nullopt;
}

/// Returns sentences about the memory that a trim can bring back.
std::string prospect(const Session& session, const Idler& idler) {
  std::string text;
  if (idler.pooled > Bytes{0})
    text = fmt::format(
        "could return  the unused part of {} in pools of the driver, at the program's next call that frees "
        "memory or waits for the GPU\n",
        session.size(idler.pooled));
  if (const auto answers = cooperates(idler.pids); !answers)
    text += "could return  the unused memory of ration's library: n/a (the workload's processes cannot be read here)\n";
  else if (*answers)
    text +=
        "could return  memory that the program does not use and that ration's library keeps; only the program knows "
        "how much\n";
  if (text.empty())
    text = "cannot return memory on request: the workload holds none in pools of the driver or in ration's library\n";
  const Bytes special = idler.context + idler.pooled;
  return text +
         fmt::format("      holds         {} allocated by the program, {} in pools of the driver, {} in contexts\n",
                     session.size(idler.used - std::min(idler.used, special)), session.size(idler.pooled),
                     session.size(idler.context));
}

std::string route_of(const std::string& name, const char* action) {
  return fmt::format("/api/v1/workloads/{}/{}", percent_encoded(name), action);
}

/// Returns the number of the newest event.
Result<std::int64_t> newest_event(NodeClient& daemon) {
  RATION_TRY(const auto events, daemon.get("/api/v1/events?limit=1"));
  return events.empty() ? 0 : events.back().at("id").get<std::int64_t>();
}

/// Waits for an event that is about the workload, has one of `types`, and is newer than the event number `after`.
/// Returns it.
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
  for (;;) {  // asks repeatedly: the daemon gives no stream, as too many clients follow it
    RATION_TRY(auto events, daemon.get(fmt::format("/api/v1/events?since={}&type={}&workload={}", after,
                                                   fmt::join(types, ","), percent_encoded(workload))));
    if (!events.empty()) return events.front();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

Result<int> print_moves(const Session& session, const char* schema, const json& rows) {
  if (session.format() == Format::kJson) session.print_json(schema, rows, {{"source", "daemon"}});
  return 0;
}

/// Asks the daemon for an action and waits for the event that reports its result.
Result<json> ask_and_wait(NodeClient& daemon, const std::string& name, const char* action,
                          const std::vector<std::string>& answers) {
  RATION_TRY(const auto newest, newest_event(daemon));
  RATION_TRY(const auto asked, daemon.post(route_of(name, action), json::object()));
  if (std::string_view(action) == "resume")  // the workload may wait for room without end
    fmt::print(stderr,
               "ration: {} resumes as soon as the GPU has room ({} shows what it waits for); Ctrl-C ends only this "
               "command\n",
               name, command({"why", name}));
  return wait_for_event(daemon, asked.at("workload"), newest, answers);
}

Result<int> move(const Session& session, NodeClient& daemon, const std::string& name, const char* action,
                 const std::vector<std::string>& answers) {
  RATION_TRY(const auto event, ask_and_wait(daemon, name, action, answers));
  if (event.at("type") == "ended") return fail("E1801", fmt::format("{} has ended.", name), "ration ps", 3);
  if (event.at("type") == "suspend_failed")
    return fail("E1547", event.at("text").get<std::string>() + ".",
                event.at("fix").is_string() ? event.at("fix").get<std::string>() : "ration events", 1);
  if (session.format() == Format::kText) fmt::print("{}\n", event.at("text").get<std::string>());
  return print_moves(session, action, json::array({event}));
}

/// Prints the workload that would be suspended or resumed.
Result<int> would_move(const Session& session, NodeClient& daemon, const std::string& name, const char* action) {
  RATION_TRY(const auto all, workloads_of(daemon));
  RATION_TRY(const auto meant, one_named(daemon, all, name));
  json rows = json::array();
  for (const Idler& each : meant) {
    rows.push_back({{"workload", each.name()}, {"idle_seconds", each.idle_seconds}, {"used_bytes", each.used.count()}});
    if (session.format() == Format::kText)
      fmt::print("would {} {} (idle {}), which holds {}\n", action, each.name(),
                 format_duration(each.idle_seconds * 1'000'000'000U), session.size(each.used));
  }
  return print_moves(session, action, rows);
}

/// Resumes a workload in this process, since no daemon runs that could do it.
Result<int> resume_alone(const Session& session, const std::string& name) {
  RATION_TRY(const auto store, book::Store::open());
  for (const book::StoredBook& stored : store.list()) {
    if (!stored.live || stored.contents.name != name) continue;
    std::vector<ProcessIdentity> processes;
    for (const auto& process : stored.contents.processes) processes.push_back(process.identity);
    RATION_TRY(const auto folder, session.driver_folder());
    if (const auto machine = session.machine(); machine && machine::is_on_device(*machine, processes))
      return fail("E1546", fmt::format("{} is not suspended.", name), "ration ps", 4);
    if (session.dry_run) {
      if (session.format() == Format::kText) fmt::print("would resume {}\n", name);
      return print_moves(session, "resume", json::array({{{"workload", name}, {"state", "suspended"}}}));
    }
    RATION_TRY(const auto done, machine::checkpoint(folder, machine::CheckpointAction::kResume, processes));
    if (session.format() == Format::kText) fmt::print("{} is back on its device.\n", name);
    return print_moves(session, "resume", json::array({{{"workload", name}, {"state", "running"}}}));
  }
  return tl::unexpected(unknown_name(session, name));
}

}  // namespace

Result<int> suspend(const Session& session, const std::string& name) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  if (session.dry_run) return would_move(session, daemon, name, "suspend");
  return move(session, daemon, name, "suspend", {"suspended", "suspend_failed", "ended"});
}

Result<int> resume(const Session& session, const std::string& name) {
  RATION_TRY(auto daemon, NodeClient::find(session));
  if (!daemon) return resume_alone(session, name);
  if (session.dry_run) return would_move(session, *daemon, name, "resume");
  return move(session, *daemon, name, "resume", {"resumed", "suspend_failed", "ended"});
}

namespace {

/// Returns the workloads to trim: one by name, or all that were idle long enough.
Result<std::vector<Idler>> chosen_for_trim(const Session& session, NodeClient& daemon, const TrimOptions& options) {
  const bool all = options.name.empty();
  if (!all && options.idle.empty() && !session.dry_run) {  // the daemon looks the name up
    std::vector<Idler> named(1);
    named.front().asked_as = options.name;
    return named;
  }
  std::uint64_t seconds = 0;
  if (all || !options.idle.empty()) {
    RATION_TRY(const auto given, parse_duration(options.idle.empty() ? "30m" : options.idle));
    seconds = given / 1'000'000'000U;
  }
  auto found = workloads_of(daemon);
  if (found && !all) found = one_named(daemon, *found, options.name);
  if (found) std::erase_if(*found, [&](const Idler& each) { return each.idle_seconds < seconds; });
  return found;
}

/// Removes other users' workloads from `chosen` and returns their names. Removes none if the caller is an operator.
Result<std::vector<std::string>> leave_out_others(NodeClient& daemon, std::vector<Idler>& chosen) {
  std::vector<std::string> others;
  RATION_TRY(const auto who, daemon.get("/api/v1/session"));
  if (who.at("role") == "operator") return others;
  std::erase_if(chosen, [&](const Idler& each) {
    if (each.user == who.at("user").get<std::string>()) return false;
    others.push_back(each.name());
    return true;
  });
  return others;
}

void show_who_would_be_asked(const Session& session, const Idler& idler) {
  fmt::print("would ask {} (idle {}) to give back memory; it holds {}\n      {}", idler.name(),
             format_duration(idler.idle_seconds * 1'000'000'000U), session.size(idler.used), prospect(session, idler));
}

}  // namespace

Result<int> trim(const Session& session, const TrimOptions& options) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  RATION_TRY(auto chosen, chosen_for_trim(session, daemon, options));
  std::vector<std::string> others;
  if (options.name.empty()) {
    RATION_TRY(auto left_out, leave_out_others(daemon, chosen));
    others = std::move(left_out);
  }
  json rows = json::array();
  for (const Idler& each : chosen) {
    if (session.dry_run) {
      rows.push_back(
          {{"workload", each.name()}, {"idle_seconds", each.idle_seconds}, {"used_bytes", each.used.count()}});
      if (session.format() == Format::kText) show_who_would_be_asked(session, each);
      continue;
    }
    RATION_TRY(const auto event, ask_and_wait(daemon, each.asked_as, "trim", {"trimmed", "ended"}));
    rows.push_back(event);
    if (session.format() == Format::kText) fmt::print("{}\n", event.at("text").get<std::string>());
  }
  const std::string not_yours =
      others.empty()
          ? ""
          : fmt::format("not asked, because these workloads belong to other users: {}", fmt::join(others, ", "));
  if (session.format() == Format::kText && !others.empty()) fmt::print("{}\n", not_yours);
  if (chosen.empty() && others.empty() && session.format() == Format::kText)
    fmt::print("{} was {}idle for {}; nothing was done.\n", options.name.empty() ? "no workload" : options.name,
               options.name.empty() ? "" : "not ", options.idle.empty() ? "30m" : options.idle);
  if (session.format() != Format::kJson) return 0;
  json more{{"source", "daemon"}};
  if (!others.empty())
    more["warnings"] =
        json::array({{{"id", "E1502"}, {"message", not_yours}, {"fix", "ration ps   shows their users"}}});
  session.print_json("trim", rows, more);
  return 0;
}

}  // namespace ration::cli
