#include "node/http/health.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/time.hpp"
#include "machine/user_names.hpp"

namespace ration::node {

using nlohmann::json;

namespace {

constexpr const char* kSomeProblem = "there is a problem, visible to tenants and operators";

}  // namespace

json health_json(const Health& health, const Viewer& viewer) {
  const Snapshot& now = health.state.snapshot;
  const Registry& registry = health.state.registry;
  const bool has_driver = !now.driver_version.empty();
  const auto shown = [&](const std::string& wrong) {
    return wrong.empty() || !viewer.totals_only ? wrong : std::string(kSomeProblem);
  };
  const std::string problem = shown(health.recorded.problem);
  json data{{"version", RATION_VERSION},
            {"started", utc(health.counters.started_ns)},
            {"last_look", utc(now.time_ns)},
            {"recorded_to", history::rfc3339(health.recorded.recorded_to)},
            {"driver", has_driver ? json(now.driver_version) : json(nullptr)},
            {"problem", problem.empty() ? json(nullptr) : json(problem)}};
  if (!has_driver) data["driver_na"] = now.machine_problem.empty() ? "not told" : shown(now.machine_problem);
  if (problem.empty()) data["problem_na"] = "none";
  if (!viewer.totals_only) {
    data["pid"] = ::getpid();
    data["looks"] = health.counters.ticks;
    data["look_seconds"] = health.counters.tick_seconds;
    data["workloads"] = registry.workloads().size();
    data["stream_clients"] = health.stream_clients;
    data["connections"] = health.connections;
  }
  if (viewer.is_operator) {
    data["folders"] = json::array();
    for (const auto& [folder, owner] : registry.folders())
      data["folders"].push_back({{"folder", folder}, {"user", machine::user_name(owner)}});
  }
  const auto check = [&](const char* id, const std::string& wrong, const std::string& good) {
    data["checks"].push_back({{"id", id},
                              {"status", wrong.empty() ? "ok" : "warn"},
                              {"text", !wrong.empty()       ? shown(wrong)
                                       : viewer.totals_only ? "ok"
                                                            : good}});
  };
  check("gpu.driver", now.machine_problem, "driver " + now.driver_version);
  check("disk.history", problem.empty() ? health.recorded.set_aside : problem, "recorded");
  check("socket", health.unreachable, "listens on " + health.socket);
  if (health.address) check("port", health.port_problem, "listens on " + *health.address);
  check("books", "", fmt::format("{} workloads in {} folders", registry.workloads().size(), registry.folders().size()));
  return data;
}

}  // namespace ration::node
