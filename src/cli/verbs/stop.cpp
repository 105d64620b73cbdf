// `ration stop`: ends a workload. Ends its `ration run` first, which then reports how the program ended.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "base/command.hpp"
#include "base/file.hpp"
#include "base/strings.hpp"
#include "cli/session/node_client.hpp"
#include "cli/session/other_versions.hpp"
#include "cli/start/admission.hpp"
#include "cli/verbs/verbs.hpp"
#include "machine/user_names.hpp"

namespace ration::cli {
namespace {

using namespace std::chrono_literals;

/// A process of the workload. The handle never refers to a later process with the same pid.
struct Target {
  std::int32_t pid = 0;
  FileDescriptor handle;
};

/// Adds all descendants of a process.
void add_descendants(std::int32_t pid, std::vector<ProcessIdentity>& found) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", pid));
  for (std::int32_t child = 0; children >> child;) {
    const auto identity = identity_of(child);
    if (!identity) continue;
    found.push_back(*identity);
    add_descendants(child, found);
  }
}

/// Opens handles of these processes, without pids that the kernel has given to other processes since.
std::vector<Target> handles_of(const std::vector<ProcessIdentity>& all) {
  std::vector<Target> targets;
  for (const ProcessIdentity& identity : all) {
    FileDescriptor handle{static_cast<int>(::syscall(SYS_pidfd_open, identity.pid, 0))};
    // Compares the identity after opening the handle, so that the handle is of that process.
    if (handle && identity.pid != ::getpid() && liveness(identity) == Liveness::kAlive)
      targets.push_back({identity.pid, std::move(handle)});
  }
  return targets;
}

/// Returns the descendants of `ration run` and the processes in the book.
std::vector<Target> processes_of(const book::BookSnapshot& book) {
  std::vector<ProcessIdentity> all{book.creator};
  if (liveness(book.creator) == Liveness::kAlive) add_descendants(book.creator.pid, all);
  for (const auto& process : book.processes)
    if (std::none_of(all.begin(), all.end(), [&](const auto& each) { return each.same_as(process.identity); }))
      all.push_back(process.identity);
  return handles_of(all);
}

/// Sends a signal to every target. Fails with E1502 if this user may not.
Result<void> send(const std::vector<Target>& targets, int signal) {
  for (const Target& target : targets) {
    if (::syscall(SYS_pidfd_send_signal, target.handle.get(), signal, nullptr, 0) == 0 || errno == ESRCH) continue;
    return fail("E1502", fmt::format("this user may not end pid {}.", target.pid),
                "Ask its owner, or root: ration ps   shows the owner", 5);
  }
  return {};
}

/// Opens handles of the processes that a row of the daemon lists, and of their descendants: only those of the
/// workload's owner, who can write any pid into the book.
std::vector<Target> processes_in(const nlohmann::json& rows) {
  std::vector<ProcessIdentity> all;
  for (const nlohmann::json& row : rows)
    for (const nlohmann::json& process : row.at("processes"))
      if (const auto identity = identity_of(process.at("pid").get<std::int32_t>())) {
        all.push_back(*identity);
        add_descendants(identity->pid, all);
      }
  const std::string owner = rows.at(0).at("user");
  std::erase_if(all, [&](const ProcessIdentity& each) { return machine::user_name(each.user) != owner; });
  return handles_of(all);
}

/// Returns the rows of the workload at `path`, read now.
Result<nlohmann::json> rows_at(const Session& session, const std::string& path) {
  RATION_TRY(const auto node, NodeAccess::open(session));
  return node->get(path);
}

/// Ends another user's workload, which the daemon knows or, without a daemon, root: its processes, and what they
/// started. Fails with E1502 if this user may not, with E1801 or E1802 as the node does.
Result<int> stop_of_another(const Session& session, const StopOptions& options, std::chrono::nanoseconds grace) {
  const std::string path = "/api/v1/workloads/" + percent_encoded(options.name);
  RATION_TRY(const auto rows, rows_at(session, path));
  const std::string user = rows.at(0).at("user"), name = rows.at(0).at("workload");
  if (!rows.at(0).at("processes").is_array())
    return fail("E1502", fmt::format("you may not end workload {} (owner {}).", name, user),
                fmt::format("Ask {}, root or a member of group ration: {}", user, command({"stop", options.name})), 5);
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
                command({"stop", options.name, "--yes"}), 4);
  const auto run = rows.at(0).at("run");
  const auto end = std::chrono::steady_clock::now() + grace;
  bool killed = false;
  RATION_TRY(send(processes_in(rows), SIGTERM));
  for (;; std::this_thread::sleep_for(100ms)) {
    const auto now = rows_at(session, path);
    if (!now || now->at(0).at("run") != run) return tell(killed ? "killed" : "ended");
    if (std::chrono::steady_clock::now() > end + 5s)
      return fail("E1502", fmt::format("{} did not end: its book lists processes that are not {}'s.", name, user),
                  command({"explain", options.name}), 5);
    if (killed || std::chrono::steady_clock::now() < end) continue;
    RATION_TRY(send(processes_in(*now), SIGKILL));
    killed = true;
  }
}

/// Removes a run that waits from the queue, which ends its `ration run`.
Result<int> leave_queue(const Session& session, const std::string& name, const std::string& lease) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  if (!session.dry_run) {
    if (!confirmed(session, fmt::format("Remove {}, which waits as {}, from the queue?", session.shown(name), lease)))
      return fail("E1205", fmt::format("you did not confirm that {} should leave the queue; nothing was done.", name),
                  command({"stop", name, "--yes"}), 2);
    RATION_TRY(daemon.remove("/api/v1/leases/" + lease));
  }
  const char* state = session.dry_run ? "would be removed from the queue" : "removed from the queue";
  if (session.format() == Format::kJson)
    session.print_json("stop", {{"workload", name}, {"pids", nlohmann::json::array()}, {"state", state}});
  else
    fmt::print("{} ({}): {}\n", session.shown(name), lease, state);
  return 0;
}

}  // namespace

Result<int> stop(const Session& session, const StopOptions& options) {
  RATION_TRY(const auto grace, parse_duration(options.grace));
  RATION_TRY(const auto store, session.store());
  RATION_TRY(is_of_this_version(store, options.name));
  std::optional<book::BookSnapshot> book;
  for (const auto& stored : store.list())
    if (stored.live && stored.contents.name == options.name) book = stored.contents;
  if (!book) {
    if (const std::string lease = lease_waiting_as(session, options.name); !lease.empty())
      return leave_queue(session, options.name, lease);
    auto stopped = stop_of_another(session, options, std::chrono::nanoseconds(grace));
    if (stopped || stopped.error().id != "E1801") return stopped;
    return tl::unexpected(unknown_name(session, options.name));
  }
  std::vector<Target> targets = processes_of(*book);
  std::vector<std::int32_t> pids;
  for (const Target& target : targets) pids.push_back(target.pid);
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
                command({"stop", options.name, "--yes"}), 4);
  RATION_TRY(send(targets, SIGTERM));
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(grace);
  bool killed = false;
  for (;; std::this_thread::sleep_for(20ms)) {
    targets = processes_of(*book);
    if (targets.empty()) return tell(killed ? "killed" : "ended");
    if (killed || std::chrono::steady_clock::now() < end) continue;
    // Reads the book again, because it now also has the processes that started meanwhile.
    for (const auto& stored : store.list())
      if (stored.contents.run_number == book->run_number) book = stored.contents;
    RATION_TRY(send(processes_of(*book), SIGKILL));
    killed = true;
  }
}

}  // namespace ration::cli
