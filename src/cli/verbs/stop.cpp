// `ration stop`: ends a workload. Ends its `ration run` first, which then reports how the program ended.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "base/command.hpp"
#include "cli/session/node_client.hpp"
#include "cli/session/other_versions.hpp"
#include "cli/start/admission.hpp"
#include "cli/verbs/verbs.hpp"
#include "machine/process_signals.hpp"
#include "machine/user_names.hpp"

namespace ration::cli {
namespace {

using namespace std::chrono_literals;

/// Returns the running descendants of `ration run` and processes in the book.
std::vector<ProcessIdentity> processes_of(const book::BookSnapshot& book) {
  std::vector<ProcessIdentity> all{book.creator};
  if (liveness(book.creator) == Liveness::kAlive) machine::add_descendants(book.creator.pid, all);
  for (const auto& process : book.processes)
    if (std::none_of(all.begin(), all.end(), [&](const auto& each) { return each.same_as(process.identity); }))
      all.push_back(process.identity);
  machine::keep_alive_only(all);
  return all;
}

/// Sends a signal to every process. Fails with E1502 if this user may not.
Result<void> send(const std::vector<ProcessIdentity>& processes, int signal) {
  const auto denied = machine::send_signal(processes, signal);
  if (!denied) return {};
  return fail("E1502", fmt::format("this user may not end pid {}.", *denied),
              "Ask its owner, or root: ration ps   shows the owner", 5);
}

/// Returns the rows of the workload at `path`, read now.
Result<nlohmann::json> rows_at(const Session& session, const std::string& path) {
  RATION_TRY(const auto node, NodeAccess::open(session));
  return node->get(path);
}

/// Sends a signal to the processes that the rows list, and to their descendants. Leaves it to the daemon if this user
/// may not: the daemon does it for operators.
Result<void> send_to_rows(const Session& session, const nlohmann::json& rows, const std::string& path, int signal) {
  const std::string owner = rows.at(0).at("user");
  const auto is_owner = [&](std::uint32_t user) { return machine::user_name(user) == owner; };
  std::vector<std::int32_t> pids;
  for (const nlohmann::json& row : rows)
    for (const nlohmann::json& process : row.at("processes")) pids.push_back(process.at("pid"));
  auto sent = send(machine::with_descendants_of(pids, is_owner), signal);
  if (sent) return sent;
  RATION_TRY(auto daemon, NodeClient::find(session));
  if (!daemon) return sent;
  RATION_TRY(daemon->post(path + "/stop", {{"kill", signal == SIGKILL}}));
  return {};
}

/// Ends another user's workload, which the daemon knows or, without a daemon, root: its processes, and what they
/// started. Fails with E1502 if this user may not, with E1801 or E1802 as the node does.
Result<int> stop_of_another(const Session& session, const std::string& asked, std::chrono::nanoseconds grace) {
  const std::string path = "/api/v1/workloads/" + percent_encoded(asked);
  RATION_TRY(const auto rows, rows_at(session, path));
  const std::string user = rows.at(0).at("user"), name = rows.at(0).at("workload");
  if (!rows.at(0).at("processes").is_array())
    return fail("E1502", fmt::format("you may not end workload {} (owner {}).", name, user),
                fmt::format("Ask {}, root or a member of group ration: {}", user, command({"stop", asked})), 5);
  const std::string who = fmt::format("{} of {}", name, user);
  const auto tell = [&](const char* state) {
    std::vector<std::int32_t> pids;
    for (const nlohmann::json& process : rows.at(0).at("processes")) pids.push_back(process.at("pid"));
    if (session.format() == Format::kJson)
      session.print_json("stop", {{"workload", name}, {"pids", pids}, {"state", state}});
    else
      fmt::print("{}: {}\n", session.shown(who), state);
    return 0;
  };
  if (session.dry_run) return tell("would be ended");
  if (!confirmed(session, fmt::format("End {}?", session.shown(who))))
    return fail("E1205", fmt::format("you did not confirm that {} should end; nothing was done.", who),
                command({"stop", asked, "--yes"}), 4);
  const auto run = rows.at(0).at("run");
  const auto end = std::chrono::steady_clock::now() + grace;
  bool killed = false;
  RATION_TRY(send_to_rows(session, rows, path, SIGTERM));
  for (;; std::this_thread::sleep_for(100ms)) {
    const auto now = rows_at(session, path);
    if (!now || now->at(0).at("run") != run) return tell(killed ? "killed" : "ended");
    if (std::chrono::steady_clock::now() > end + 5s)
      return fail("E1502", fmt::format("{} did not end: its book lists processes that are not {}'s.", name, user),
                  command({"explain", asked}), 5);
    if (killed || std::chrono::steady_clock::now() < end) continue;
    RATION_TRY(send_to_rows(session, *now, path, SIGKILL));
    killed = true;
  }
}

/// Removes a run that waits from the queue, which ends its `ration run`.
Result<int> leave_queue(const Session& session, const std::string& name, const std::string& lease) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  if (!session.dry_run) {
    if (!confirmed(session, fmt::format("Remove {}{} from the queue?", session.shown(name),
                                        name == lease ? "" : ", which waits as " + lease + ",")))
      return fail("E1205", fmt::format("you did not confirm that {} should leave the queue; nothing was done.", name),
                  command({"stop", name, "--yes"}), 2);
    RATION_TRY(daemon.remove("/api/v1/leases/" + lease));
  }
  const char* state = session.dry_run ? "would be removed from the queue" : "removed from the queue";
  if (session.format() == Format::kJson)
    session.print_json("stop", {{"workload", name}, {"pids", nlohmann::json::array()}, {"state", state}});
  else
    fmt::print("{}{}: {}\n", session.shown(name), name == lease ? "" : " (" + lease + ")", state);
  return 0;
}

bool is_place_in_queue(const std::string& text) {
  return text.rfind("q-", 0) == 0 && text.size() > 2 && text.find_first_not_of("0123456789", 2) == std::string::npos;
}

/// Ends the workload of that name, or removes the run that waits under it.
Result<int> stop_one(const Session& session, const std::string& name, std::chrono::nanoseconds grace) {
  RATION_TRY(const auto store, session.store());
  RATION_TRY(is_of_this_version(store, name));
  std::optional<book::BookSnapshot> book;
  for (const auto& stored : store.list())
    if (stored.live && stored.contents.name == name) book = stored.contents;
  if (!book) {
    if (is_place_in_queue(name)) return leave_queue(session, name, name);
    if (const std::string lease = lease_waiting_as(session, name); !lease.empty())
      return leave_queue(session, name, lease);
    auto stopped = stop_of_another(session, name, grace);
    if (stopped || stopped.error().id != "E1801") return stopped;
    return tl::unexpected(unknown_name(session, name));
  }
  std::vector<ProcessIdentity> processes = processes_of(*book);
  std::vector<std::int32_t> pids;
  for (const ProcessIdentity& process : processes) pids.push_back(process.pid);
  const std::string who = fmt::format("{} (pid {}: {})", book->name, fmt::join(pids, ", "), book->command);
  const auto tell = [&](const char* state) {
    if (session.format() == Format::kJson)
      session.print_json("stop", {{"workload", book->name}, {"pids", pids}, {"state", state}});
    else
      fmt::print("{}: {}\n", session.shown(who), state);
    return 0;
  };
  if (session.dry_run) return tell("would be ended");
  if (!confirmed(session, fmt::format("End {}?", session.shown(who))))
    return fail("E1205", fmt::format("you did not confirm that {} should end; nothing was done.", book->name),
                command({"stop", name, "--yes"}), 4);
  RATION_TRY(send(processes, SIGTERM));
  const auto end = std::chrono::steady_clock::now() + grace;
  bool killed = false;
  for (;; std::this_thread::sleep_for(20ms)) {
    processes = processes_of(*book);
    if (processes.empty()) return tell(killed ? "killed" : "ended");
    if (killed || std::chrono::steady_clock::now() < end) continue;
    // Reads the book again, because it now also has the processes that started meanwhile.
    for (const auto& stored : store.list())
      if (stored.contents.run_number == book->run_number) book = stored.contents;
    RATION_TRY(send(processes_of(*book), SIGKILL));
    killed = true;
  }
}

}  // namespace

Result<int> stop(const Session& session, const StopOptions& options) {
  RATION_TRY(const auto grace, parse_duration(options.grace));
  if (options.names.size() > 1 && session.format() == Format::kJson)
    return fail("E1001", "-o json is about one workload.", "ration stop --help", 2);
  for (const std::string& name : options.names)
    if (auto stopped = stop_one(session, name, std::chrono::nanoseconds(grace)); !stopped) return stopped;
  return 0;
}

}  // namespace ration::cli
