#include "cli/start/admission.hpp"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include "cli/start/launch.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/text/fields.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A person who waits minutes does not notice; the daemon answers such a question from memory.
constexpr auto kAskedEvery = 500ms;

std::string gpus_of(const json& lease) {
  std::vector<std::string> numbers;
  for (const json& gpu : lease.at("gpus")) numbers.push_back(std::to_string(gpu.get<int>()));
  return fmt::format("{}", fmt::join(numbers, ","));
}

void tell_of_waiting(const Session& session, const json& lease, Bytes bytes) {
  fmt::print(stderr, "ration: waiting for {} on {} - {}\n{}", format_size(bytes),
             lease.at("gpu") == "auto" ? "any GPU" : "GPU " + lease["gpu"].get<std::string>(),
             lease.value("reason", "its turn"), takers_line(session, lease, "      taken by  "));
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

constexpr int kAskedUnheard = 3;  // times; a daemon that is stopped stays silent

std::string random_word() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

/// Asks for a place in the queue, under the same key until there is an answer: a daemon that heard it the first time
/// has one place for it.
Result<json> ask_for_place(NodeClient& daemon, const json& wish, std::optional<Clock::time_point> end) {
  for (int unheard = 0;;) {
    auto lease = daemon.post("/api/v1/leases", wish);
    if (lease) return lease;
    const std::string& id = lease.error().id;
    const bool again = id == "E1517" || (id == "E1508" && ++unheard < kAskedUnheard);
    if (!again || (end && Clock::now() >= *end)) return lease;
    std::this_thread::sleep_for(kAskedEvery);
  }
}

/// As the daemon's queue names them.
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

std::string takers_line(const Session& session, const json& lease, std::string_view begin) {
  constexpr std::size_t kMaxNamed = 8;
  const auto takers = lease.find("taken_by");
  if (takers == lease.end() || takers->empty()) return {};
  std::vector<std::string> parts;
  for (const json& row : *takers) {
    if (parts.size() == kMaxNamed) {
      parts.push_back(fmt::format("and {} more", takers->size() - kMaxNamed));
      break;
    }
    const Bytes taken = bytes_in(row, "taken_bytes");
    const auto used = known_bytes(row, "used_bytes");
    parts.push_back(fmt::format("{} {}{}", row.at("who").get<std::string>(), session.size(taken),
                                used && *used < taken ? fmt::format(" (promised; {} used)", session.size(*used)) : ""));
  }
  return fmt::format("{}{}\n", begin, fmt::join(parts, " · "));
}

Result<Lease> wait_for_lease(const Session& session, NodeClient& daemon, const RunOptions& options, Bytes bytes) {
  RATION_TRY(const auto gpus, numbers_of(session, options.wish.gpu));
  json wish{{"bytes", bytes.count()},
            {"gpu", gpus},
            {"tenant", options.wish.tenant},
            {"name", workload_name(options)},
            {"command", shown_command(options.program)}};
  if (!options.wait.empty()) wish["wait"] = options.wait;
  if (options.priority) wish["priority"] = *options.priority;
  wish["key"] = random_word();
  const auto begun = Clock::now();
  std::optional<Clock::time_point> end;
  if (const auto longest = parse_duration(options.wait)) end = begun + std::chrono::nanoseconds(*longest);
  auto lease = ask_for_place(daemon, wish, end);
  if (lease && options.priority && lease->at("priority").get<int>() < *options.priority)
    fmt::print(stderr,
               "ration: priority {} counts as {}: operators give up to 1000, others no more than their tenant has.\n",
               *options.priority, lease->at("priority").get<int>());
  bool told = false;
  for (;;) {
    if (!lease) {
      // The daemon was started again without its memory of who waits: ask once more, at the end of the queue.
      if (lease.error().id != "E1526") return tl::unexpected(lease.error());
      lease = ask_for_place(daemon, wish, end);
      if (!lease) return tl::unexpected(lease.error());
    }
    const std::string state = lease->at("state"), id = lease->at("lease");
    if (state == "granted" || state == "running") {
      if (told) {
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
      if (!end) {  // granted, and not taken up in time: this process was stopped meanwhile
        wish["key"] = random_word();
        lease = ask_for_place(daemon, wish, end);
        continue;
      }
      return fail("E1309", fmt::format("{} were not free within {}.", format_size(bytes), options.wait),
                  "ration ps   shows who holds it; --wait without a time waits for ever", 124);
    }
    if (!told) tell_of_waiting(session, *lease, bytes);
    told = true;
    std::this_thread::sleep_for(kAskedEvery);
    auto answer = daemon.get("/api/v1/leases/" + id);
    // A daemon that is being started again, or has too many clients: they wait on.
    if (!answer && (answer.error().id == "E1501" || answer.error().id == "E1508" || answer.error().id == "E1517"))
      continue;
    lease = std::move(answer);
  }
}

Result<std::string> register_workload(NodeClient& daemon, const std::string& folder, const std::string& book,
                                      const admission::PlanRequest& wish, const std::string& labels,
                                      const std::string& lease, const std::vector<admission::PlannedAccount>& accounts,
                                      std::optional<std::uint32_t> user) {
  json guarantees = json::object();
  for (const auto& account : accounts)
    if (account.guarantee > Bytes{0}) guarantees[account.device.uuid] = account.guarantee.count();
  json body{{"folder", folder}, {"book", book},        {"tenant", wish.tenant},           {"labels", labels},
            {"lease", lease},   {"slice", wish.slice}, {"devices", devices_of(accounts)}, {"guarantees", guarantees}};
  if (user) body["user"] = *user;
  RATION_TRY(const auto answer, daemon.post("/api/v1/workloads", body));
  return answer.value("tenant", wish.tenant);
}

Result<void> show_book(NodeClient& daemon, const std::string& folder, const std::string& tenant,
                       const std::string& labels, const std::function<void()>& work) {
  const json body{{"folder", folder}, {"tenant", tenant}, {"labels", labels}, {"made", true}};
  return daemon.post_during("/api/v1/workloads", body, work).map([](const json&) {});
}

}  // namespace ration::cli
