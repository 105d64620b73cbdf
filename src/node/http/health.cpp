#include "node/http/health.hpp"

#include <unistd.h>

#include "base/message_json.hpp"
#include "base/say.hpp"
#include "base/time.hpp"
#include "machine/user_names.hpp"

namespace ration::node {

using nlohmann::json;

namespace {

constexpr FixedMessage kSomeProblem = fixed<"unknown.problem_hidden">();

}  // namespace

json health_json(const Health& health, const Viewer& viewer) {
  const Snapshot& now = health.moment.snapshot;
  const Registry& registry = health.moment.registry;
  const bool has_driver = !now.driver_version.empty();
  const auto shown = [&](const Message& wrong) {
    return wrong.empty() || !viewer.totals_only ? wrong : Message(kSomeProblem);
  };
  const Message not_recorded = shown(health.recorded.problem);
  const Message problem = not_recorded.empty() ? shown(health.reload.rejected) : not_recorded;
  json data{{"version", RATION_VERSION},
            {"started", utc(health.counters.started_ns)},
            {"last_look", utc(now.time_ns)},
            {"recorded_to", history::rfc3339(health.recorded.recorded_to)},
            {"driver", has_driver ? json(now.driver_version) : json(nullptr)},
            {"problem", nullptr}};
  if (!has_driver)
    put_message(data, "driver_na",
                now.machine_problem.empty() ? fixed<"unknown.not_told">() : shown(now.machine_problem));
  if (problem.empty())
    put_message(data, "problem_na", fixed<"unknown.none">());
  else
    put_message(data, "problem", problem);
  if (!viewer.totals_only) {
    data["pid"] = ::getpid();
    data["looks"] = health.counters.ticks;
    data["look_seconds"] = health.counters.tick_seconds;
    data["workloads"] = registry.workloads().size();
    data["stream_clients"] = health.stream_clients;
    data["connections"] = health.connections;
  }
  if (viewer.is_operator) {
    if (!health.state_folder.empty()) data["state_folder"] = health.state_folder;
    data["folders"] = json::array();
    for (const auto& [folder, owner] : registry.folders())
      data["folders"].push_back({{"folder", folder}, {"user", machine::user_name(owner)}});
  }
  const auto check = [&](const char* id, const Message& wrong, const Message& good) {
    json row{{"id", id}, {"status", wrong.empty() ? "ok" : "warn"}};
    put_message(row, "text",
                !wrong.empty()       ? shown(wrong)
                : viewer.totals_only ? Message(fixed<"daemon.is_well">())
                                     : good);
    data["checks"].push_back(std::move(row));
  };
  check("gpu.driver", now.machine_problem, say<"daemon.has_driver">("version"_is(now.driver_version)));
  check("disk.history", not_recorded.empty() ? health.recorded.set_aside : not_recorded, fixed<"daemon.records">());
  check("config", health.reload.rejected, fixed<"configuration.accepted">());
  check("socket", health.unreachable, say<"daemon.listens">("place"_is(health.socket)));
  if (health.address) check("port", health.port_problem, say<"daemon.listens">("place"_is(*health.address)));
  check("books", {},
        say<"daemon.has_workloads">("count"_is(registry.workloads().size()), "folders"_is(registry.folders().size())));
  return data;
}

}  // namespace ration::node
