#include "cli/start/admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "base/command.hpp"
#include "base/strings.hpp"
#include "cli/start/launch.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/text/fields.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Half a second does not matter in a wait of minutes, and the daemon answers from memory.
constexpr auto kAskedEvery = 500ms;

std::string gpus_of(const json& lease) {
  std::vector<std::string> numbers;
  for (const json& gpu : lease.at("gpus")) numbers.push_back(std::to_string(gpu.get<int>()));
  return fmt::format("{}", fmt::join(numbers, ","));
}

void announce_waiting(const Session& session, const json& lease, Bytes bytes) {
  fmt::print(stderr, "ration: waiting for {} on {} - {}\n{}", format_size(bytes),
             lease.at("gpu") == "auto" ? "any GPU" : "GPU " + lease["gpu"].get<std::string>(),
             lease.value("reason", "its turn"), holders_line(session, lease, "      taken by  "));
  const json& estimate = lease.at("estimate_seconds");
  fmt::print(stderr, "      position {} of {} · usual wait here {} · Ctrl-C to leave the queue\n",
             lease.at("position").get<int>(), lease.at("of").get<int>(),
             estimate.is_number()
                 ? fmt::format("{} (median of {})", format_duration(estimate.get<std::uint64_t>() * 1'000'000'000U),
                               lease.at("estimate_of").get<int>())
                 : "n/a (" + lease.value("estimate_seconds_na", "not known") + ")");
}

json devices_of(const std::vector<admission::PlannedAccount>& accounts) {
  json uuids = json::array();
  for (const auto& account : accounts) uuids.push_back(account.device.uuid);
  return uuids;
}

constexpr int kMaxUnanswered = 3;  // requests; a stopped daemon never answers

std::string random_word() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

/// Asks for a place in the queue, and repeats the request under the same key until an answer comes. Because of the key,
/// the daemon gives no second place if an earlier request reached it.
Result<json> ask_for_place(NodeClient& daemon, const json& request, std::optional<Clock::time_point> end) {
  for (int unanswered = 0;;) {
    auto lease = daemon.post("/api/v1/leases", request);
    if (lease) return lease;
    const std::string& id = lease.error().id;
    const bool again = id == "E1517" || (id == "E1508" && ++unanswered < kMaxUnanswered);
    if (!again || (end && Clock::now() >= *end)) return lease;
    std::this_thread::sleep_for(kAskedEvery);
  }
}

/// Returns the GPUs by number, as the daemon's queue names them.
Result<std::string> numbers_of(const Session& session, const std::string& gpus) {
  if (gpus.empty() || gpus == "auto") return "auto";
  const auto machine = session.machine();
  if (!machine) return tl::unexpected(machine.error());
  RATION_TRY(const auto chosen, machine::choose_devices(machine->devices, gpus));
  std::vector<int> numbers;
  for (const machine::Device& device : chosen) numbers.push_back(device.index);
  return fmt::format("{}", fmt::join(numbers, ","));
}

}  // namespace

std::string holders_line(const Session& session, const json& lease, std::string_view begin) {
  constexpr std::size_t kMaxNamed = 8;
  const auto holders = lease.find("taken_by");
  if (holders == lease.end() || holders->empty()) return {};
  std::vector<std::string> parts;
  for (const json& row : *holders) {
    if (parts.size() == kMaxNamed) {
      parts.push_back(fmt::format("and {} more", holders->size() - kMaxNamed));
      break;
    }
    const Bytes taken = bytes_in(row, "taken_bytes");
    const auto used = known_bytes(row, "used_bytes");
    parts.push_back(fmt::format("{} {}{}", row.at("who").get<std::string>(), session.size(taken),
                                used && *used < taken ? fmt::format(" (promised; {} used)", session.size(*used)) : ""));
  }
  return fmt::format("{}{}\n", begin, fmt::join(parts, " · "));
}

std::string lease_waiting_as(const Session& session, const std::string& name) {
  if (name.empty()) return "";
  auto daemon = NodeClient::find(session);
  if (!daemon || !*daemon) return "";
  const auto waiting = (*daemon)->get("/api/v1/leases");
  if (!waiting) return "";
  const auto slash = name.rfind('/');
  for (const json& lease : *waiting) {
    const std::string whose = slash == std::string::npos ? "" : name.substr(0, slash);
    const bool is_its = whose.empty() || lease.at("tenant") == whose || lease.at("user") == whose;
    if (is_its && lease.value("name", json()) == name.substr(slash + 1)) return lease.at("lease");
  }
  return "";
}

Error unknown_name(const Session& session, const std::string& name) {
  if (const std::string lease = lease_waiting_as(session, name); !lease.empty())
    return {"E1801", fmt::format("'{}' does not run yet: it waits in the queue as {}.", name, lease),
            fmt::format("ration why {}   shows what it waits for", lease), 3};
  std::vector<std::string> names;
  if (const auto node = NodeAccess::open(session)) {
    for (const char* path : {"/api/v1/workloads", "/api/v1/tenants"})
      for (const json& row : (*node)->get(path).value_or(json::array()))
        for (const char* field : {"workload", "tenant"})
          if (const auto found = row.find(field); found != row.end() && found->is_string())
            names.push_back(found->get<std::string>());
  }
  if (std::find(names.begin(), names.end(), name) != names.end())
    return {"E1801", fmt::format("'{}' is a tenant, not a workload.", name),
            command({"ps", "--tenant", name}) + "   shows its workloads", 3};
  return {"E1801", fmt::format("no running workload or tenant is named '{}'.{}", name, suggestion(name, names)),
          "ration ps", 3};
}

Result<Lease> wait_for_lease(const Session& session, NodeClient& daemon, const RunOptions& options, Bytes bytes) {
  RATION_TRY(const auto gpus, numbers_of(session, options.request.gpu));
  json request{{"bytes", bytes.count()},
               {"gpu", gpus},
               {"tenant", options.request.tenant},
               {"name", workload_name(options)},
               {"command", shown_command(options.program)}};
  if (!options.wait.empty()) request["wait"] = options.wait;
  if (options.priority) request["priority"] = *options.priority;
  request["key"] = random_word();
  const auto begun = Clock::now();
  std::optional<Clock::time_point> end;
  if (const auto longest = parse_duration(options.wait)) end = begun + std::chrono::nanoseconds(*longest);
  auto lease = ask_for_place(daemon, request, end);
  if (lease && options.priority && lease->at("priority").get<int>() < *options.priority)
    fmt::print(
        stderr,
        "ration: priority {} is lowered to {}: only an operator may exceed the tenant's priority (at most 1000).\n",
        *options.priority, lease->at("priority").get<int>());
  std::optional<int> announced;  // its last position that was printed
  for (;;) {
    if (!lease) {
      // E1526: the daemon does not know the lease, for example because the daemon was started again. Asks for a new
      // place, at the end of the queue.
      if (lease.error().id != "E1526") return tl::unexpected(lease.error());
      lease = ask_for_place(daemon, request, end);
      if (!lease) return tl::unexpected(lease.error());
    }
    const std::string state = lease->at("state"), id = lease->at("lease");
    if (state == "granted" || state == "running") {
      if (announced) {
        const auto waited = Clock::now() - begun;
        const std::string reason = lease->value("reason", "");
        fmt::print(stderr, "ration: started on GPU {} after {}{}\n", gpus_of(*lease),
                   format_duration(static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count())),
                   reason.empty() ? "" : ", " + reason);
      }
      return Lease{id, gpus_of(*lease)};
    }
    if (state == "over") {
      (void)daemon.remove("/api/v1/leases/" + id);
      if (!end) {  // the grant expired because this process was stopped meanwhile
        request["key"] = random_word();
        lease = ask_for_place(daemon, request, end);
        continue;
      }
      return fail("E1309", fmt::format("{} did not become free within {}.", format_size(bytes), options.wait),
                  "ration ps   shows which workloads hold memory; --wait without a time waits without a time limit",
                  124);
    }
    const int position = lease->value("position", 0);
    if (!announced)
      announce_waiting(session, *lease, bytes);
    else if (position != *announced)
      fmt::print(stderr, "ration: now position {} of {} - {}\n", position, lease->value("of", 0),
                 lease->value("reason", "its turn"));
    announced = position;
    std::this_thread::sleep_for(kAskedEvery);
    auto answer = daemon.get("/api/v1/leases/" + id);
    // Keeps waiting while the daemon is being started again or has too many clients.
    if (!answer && (answer.error().id == "E1501" || answer.error().id == "E1508" || answer.error().id == "E1517"))
      continue;
    lease = std::move(answer);
  }
}

Result<std::string> register_workload(NodeClient& daemon, const std::string& folder, const std::string& book,
                                      const admission::PlanRequest& request, const std::string& labels,
                                      const std::string& lease, const std::vector<admission::PlannedAccount>& accounts,
                                      std::optional<std::uint32_t> user) {
  json guarantees = json::object();
  for (const auto& account : accounts)
    if (account.guarantee > Bytes{0}) guarantees[account.device.uuid] = account.guarantee.count();
  json body{
      {"folder", folder}, {"book", book},           {"tenant", request.tenant},        {"labels", labels},
      {"lease", lease},   {"slice", request.slice}, {"devices", devices_of(accounts)}, {"guarantees", guarantees}};
  if (user) body["user"] = *user;
  RATION_TRY(const auto answer, daemon.post("/api/v1/workloads", body));
  return answer.value("tenant", request.tenant);
}

Result<bool> show_book(NodeClient& daemon, const std::string& folder, const std::string& book,
                       const std::string& tenant, const std::string& labels, const std::string& recording,
                       const std::function<void()>& work) {
  json body{{"folder", folder}, {"book", book}, {"tenant", tenant}, {"labels", labels}, {"made", true}};
  if (!recording.empty()) body["recording"] = recording;
  return daemon.post_during("/api/v1/workloads", body, work).map([](const json& answer) {
    return answer.value("recorded", false);
  });
}

std::string policy_recording(const std::string& workload, std::uint64_t run) {
  const auto folder = [](const char* variable, const char* below) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value == '/' ? std::string(value) + below : std::string();
  };
  const std::string own = folder("XDG_STATE_HOME", ""), home = folder("HOME", "/.local/state");
  const std::string state = !own.empty() ? own : home;
  std::string name = workload;
  std::replace(name.begin(), name.end(), '/', '_');
  return state.empty() ? "" : fmt::format("{}/ration/recorded/{}-{}-{}.rec", state, name, run, unix_time_ns());
}

}  // namespace ration::cli
