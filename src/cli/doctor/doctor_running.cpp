// The checks of `ration doctor` for running processes: the daemon, the workloads, and processes outside of them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "base/own_folder.hpp"
#include "base/time.hpp"
#include "cli/doctor/doctor_findings.hpp"
#include "cli/session/node_client.hpp"
#include "cli/start/launch.hpp"
#include "machine/driver_exports.hpp"
#include "node/snapshot/explain.hpp"

namespace ration::cli {
namespace {

/// Returns the seconds since a time such as 2026-01-14T12:03:58.214Z; absent if the text is no time.
std::optional<double> seconds_since(const std::string& text) {
  const auto then = parse_time(text);
  if (!then) return std::nullopt;
  return static_cast<double>(unix_time_ns()) / 1e9 - static_cast<double>(*then) / 1e3;
}

}  // namespace

Finding check_daemon(const Session& session) {
  auto daemon = NodeClient::find(session);
  if (!daemon) return bad(daemon.error());
  if (!*daemon) {
    if (const auto left = NodeClient::left_behind(session))
      return warn(fmt::format("nobody listens on {}, so the daemon that made it was killed", *left),
                  left->starts_with(kMachineFolder) && has_systemd(false) ? "systemctl start rationd   as root"
                                                                          : "ration serve");
    return ok(
        "n/a (no daemon runs here, but limits are enforced without a daemon; to start the daemon: "
        "ration serve)");
  }
  const auto health = (*daemon)->get("/api/v1/health");
  if (!health) return bad(health.error());
  const auto text = [&](const char* field) { return health->value(field, "n/a (not in the daemon's answer)"); };
  const auto age = seconds_since(text("last_look"));
  const std::string what =
      fmt::format("{}: version {}{}, last tick {}", (*daemon)->socket(), text("version"),
                  health->contains("pid") ? fmt::format(", pid {}", health->at("pid").get<int>()) : "",
                  age ? fmt::format("{:.1f} s ago", *age) : "n/a (none yet)");
  if (text("version") != RATION_VERSION) return warn(what + "; this is " RATION_VERSION, "ration service restart");
  constexpr double kTooLong = 60;
  if (age.value_or(0) > kTooLong) return warn(what + ": the daemon no longer ticks", "ration service restart");
  for (const auto& check : health->value("checks", nlohmann::json::array()))
    if (check.value("id", "") == "config" && check.value("status", "") == "warn")
      return warn(what + ": " + check.value("text", ""), "ration config validate, then: ration config reload");
  if (health->at("problem").is_string()) return warn(what + ": " + text("problem"), "ration events --type daemon");
  return ok(what);
}

Finding check_enforcer(const Session& session) {
  const auto now = node_snapshot(session, {.processes = 1});
  if (!now) return warn("not checked: " + now.error().what, now.error().fix);
  std::map<std::string, int> counts;
  for (const auto& row : now->at("workloads"))
    if (row.value("governed", false)) ++counts[row.value("enforced_by", "shim")];
  std::vector<std::string> parts;
  for (const auto& [who, count] : counts) parts.push_back(fmt::format("{} by {}", count, who));
  if (parts.empty()) return ok("n/a (nothing runs under a limit)");
  return ok(fmt::format("accounts whose limit is enforced: {}", fmt::join(parts, ", ")));
}

Finding check_functions(const Session& session) {
  const auto folder = session.driver_folder();
  if (!folder) return bad(folder.error());
  const auto exported = machine::unlisted_exports(*folder);
  const auto now = node_snapshot(session, {.processes = 1});
  if (!now) return warn("not checked: " + now.error().what, now.error().fix);
  std::vector<std::string> called;
  for (const auto& row : now->at("workloads")) {
    if (!row.contains("unlisted_functions")) continue;
    called.push_back(fmt::format("{} called {}", row.at("workload").get<std::string>(),
                                 fmt::join(row["unlisted_functions"].get<std::vector<std::string>>(), ", ")));
  }
  if (exported.empty() && called.empty())
    return ok("ration knows every function of the driver that might concern memory");
  std::vector<std::string> parts;
  if (!exported.empty()) {
    constexpr std::size_t kNamed = 4;
    const auto shown = std::min(exported.size(), kNamed);
    parts.push_back(
        fmt::format("the driver has {} that ration does not know: {}{}", counted(exported.size(), "function"),
                    fmt::join(exported.begin(), exported.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                    exported.size() > shown ? ", …" : ""));
  }
  parts.insert(parts.end(), called.begin(), called.end());
  return warn(
      fmt::format("{}; memory allocated by such functions does not count towards a limit", fmt::join(parts, "; ")),
      "Update ration: a newer version might know these functions. More: ration help enforcement");
}

Finding check_ungoverned(const Session& session) {
  const auto now = node_snapshot(session, {.processes = 1});
  if (!now) return warn("not checked: " + now.error().what, now.error().fix);
  const auto& devices = now->at("devices");
  std::vector<std::string> who;
  std::string first;
  for (const auto& row : now->at("workloads")) {
    if (row.value("governed", false)) continue;
    const auto& process = row.at("processes").at(0);
    const auto word = [](const auto& from, const char* field) {
      return from.at(field).is_string() ? from.at(field).template get<std::string>() : std::string();
    };
    const std::string bytes = row.at("used_bytes").is_number()
                                  ? session.size(Bytes{row["used_bytes"].template get<std::uint64_t>()})
                                  : fmt::format("n/a ({})", word(row, "used_bytes_na"));
    const std::string pid = std::to_string(process.at("pid").template get<int>());
    who.push_back(
        fmt::format("GPU {}: pid {} {} ({}) {}", row.at("gpu").template get<int>(), pid, word(process, "command"),
                    node::whereabouts(word(row, "user"), word(row, "container"), word(row, "origin")), bytes));
    if (first.empty()) first = pid;
  }
  const bool named = std::none_of(devices.begin(), devices.end(),
                                  [](const auto& device) { return device.at("ungoverned_bytes").is_null(); });
  if (who.empty())
    return ok(named ? "every process on the GPUs is under a limit" : "n/a (without NVML the processes are unknown)");
  return warn(
      fmt::format("not under any limit: {}", fmt::join(who, ", ")),
      fmt::format(
          "ration explain {}   shows its memory; a program under 'ration run' cannot take memory that others need",
          first));
}

Finding check_orphaned(const Session& session) {
  const auto now = node_snapshot(session, {.processes = 1});
  if (!now) return warn("not checked: " + now.error().what, now.error().fix);
  const auto& devices = now->at("devices");
  constexpr Bytes kWorthTelling{std::uint64_t{256} << 20};
  std::string where;
  bool is_known = true;
  for (const auto& device : devices) {
    const auto& bytes = device.at("orphaned_bytes");
    is_known = is_known && bytes.is_number();
    if (!bytes.is_number() || Bytes{bytes.get<std::uint64_t>()} < kWorthTelling) continue;
    where += fmt::format("{}GPU {}: {}", where.empty() ? "" : ", ", device.at("gpu").get<int>(),
                         session.size(Bytes{bytes.get<std::uint64_t>()}));
  }
  if (!where.empty())
    return warn("memory in use that belongs to no process: " + where,
                "fuser -v /dev/nvidia*   lists the processes that have the device open; only a reboot ends a "
                "process in state D");
  return ok(is_known ? "all memory in use belongs to processes that the driver lists"
                     : "n/a (the driver does not report it)");
}

}  // namespace ration::cli
