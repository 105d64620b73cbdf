#include "node/api/health.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/time.hpp"
#include "machine/user_names.hpp"

namespace ration::node {

using nlohmann::json;

json health_json(const Health& health, bool with_folders) {
  const Snapshot& now = health.state.snapshot;
  const Registry& registry = health.state.registry;
  const bool has_driver = !now.driver_version.empty();
  const std::string& problem = health.recorded.problem;
  json data{{"version", RATION_VERSION},
            {"pid", ::getpid()},
            {"started", utc(health.counters.started_ns)},
            {"last_look", utc(now.time_ns)},
            {"looks", health.counters.ticks},
            {"look_seconds", health.counters.tick_seconds},
            {"workloads", registry.workloads().size()},
            {"stream_clients", health.stream_clients},
            {"connections", health.connections},
            {"recorded_to", history::rfc3339(health.recorded.recorded_to)},
            {"driver", has_driver ? json(now.driver_version) : json(nullptr)},
            {"problem", problem.empty() ? json(nullptr) : json(problem)}};
  if (!has_driver) data["driver_na"] = now.machine_problem.empty() ? "not told" : now.machine_problem;
  if (problem.empty()) data["problem_na"] = "none";
  if (with_folders) {
    data["folders"] = json::array();
    for (const auto& [folder, owner] : registry.folders())
      data["folders"].push_back({{"folder", folder}, {"user", machine::user_name(owner)}});
  }
  const auto check = [&](const char* id, const std::string& wrong, const std::string& good) {
    data["checks"].push_back(
        {{"id", id}, {"status", wrong.empty() ? "ok" : "warn"}, {"text", wrong + (wrong.empty() ? good : "")}});
  };
  check("gpu.driver", now.machine_problem, "driver " + now.driver_version);
  check("disk.history", problem.empty() ? health.recorded.set_aside : problem, "recorded");
  check("socket", health.unreachable, "listens on " + health.socket);
  if (health.address) check("port", health.port_problem, "listens on " + *health.address);
  check("books", "", fmt::format("{} workloads in {} folders", registry.workloads().size(), registry.folders().size()));
  return data;
}

}  // namespace ration::node
