#include "node/snapshot_json.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace ration::node {
namespace {

using nlohmann::json;

void put(json& row, const std::string& field, const std::optional<Bytes>& bytes, const char* reason) {
  if (bytes) {
    row[field] = bytes->count();
  } else {
    row[field] = nullptr;
    row[field + "_na"] = reason;
  }
}

void put(json& row, const std::string& field, const std::optional<int>& number, const char* reason) {
  if (number) {
    row[field] = *number;
  } else {
    row[field] = nullptr;
    row[field + "_na"] = reason;
  }
}

void hide(json& row, const std::string& field) {
  row[field] = nullptr;
  row[field + "_na"] = "not yours";
}

const char* name_of(ProcessState state) {
  switch (state) {
    case ProcessState::kManaged:
      return "managed";
    case ProcessState::kViolator:
      return "violator";
    case ProcessState::kUnmanaged:
      return "unmanaged";
  }
  return "unmanaged";
}

constexpr const char* kNotAttributed = "the driver does not attribute memory to this process";

json process_json(const ProcessView& process) {
  json row{{"pid", process.pid},
           {"user", process.user},
           {"command", process.command},
           {"state", name_of(process.state)},
           {"used_bytes", process.used.count()}};
  put(row, "driver_used_bytes", process.driver_used, kNotAttributed);
  return row;
}

const char* state_of(const AccountView& account) {
  if (account.suspended) return account.comes_back ? "resuming" : "suspended";
  if (account.shrinking()) return "shrinking";
  if (account.waiting) return "waiting";
  return "running";
}

}  // namespace

std::string utc(std::uint64_t nanoseconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(nanoseconds / 1'000'000'000U)),
                     nanoseconds / 1'000'000U % 1000);
}

json device_json(const DeviceView& view) {
  json row{{"gpu", view.device.index},
           {"uuid", view.device.uuid},
           {"name", view.device.name},
           {"total_bytes", view.device.total.count()},
           {"used_bytes", view.used().count()},
           {"free_bytes", view.device.free.count()},
           {"promised_bytes", view.promised.count()},
           {"governed_bytes", view.governed.count()}};
  put(row, "utilisation_percent", view.device.utilisation, "the driver does not say");
  put(row, "temperature_celsius", view.device.temperature, "the driver does not say");
  row["time_to_full_seconds"] = view.seconds_to_full ? json(*view.seconds_to_full) : json(nullptr);
  if (!view.seconds_to_full) row["time_to_full_seconds_na"] = "its use has not grown steadily for a minute";
  const bool processes = view.device.processes.has_value();
  put(row, "ungoverned_bytes", processes ? std::optional(view.ungoverned) : std::nullopt,
      "without NVML nobody names the processes");
  put(row, "unexplained_bytes", processes ? std::optional(view.unexplained) : std::nullopt,
      "without NVML nobody names the processes");
  return row;
}

json account_json(const AccountView& account, const Viewer& viewer) {
  json row{{"workload", account.workload},
           {"tenant", account.tenant},
           {"user", account.user},
           {"run", account.run},
           {"device", account.device},
           {"state", state_of(account)},
           {"governed", true},
           {"enforced_by", "shim"},
           {"slice", account.slice},
           {"started", utc(account.started_ns)},
           {"used_bytes", account.used.count()},
           {"limit_bytes", account.limit.count()},
           {"configured_limit_bytes", account.configured_limit.count()},
           {"guarantee_bytes", account.guarantee.count()},
           {"peak_bytes", account.peak.count()},
           {"context_bytes", account.context.count()},
           {"pooled_bytes", account.pooled.count()},
           {"suspended_bytes", account.away.count()},
           {"denials", account.denials},
           {"limit_changes", account.limit_changes},
           {"idle_seconds", account.idle_ns / 1'000'000'000U},
           {"shrinking", account.shrinking()}};
  put(row, "gpu", account.gpu, "the device is not on this machine");
  if (account.gpu) row["uuid"] = account.uuid;
  if (account.denials > 0) row["last_denial"] = fmt::format("d-{}-{}", account.run, account.last_denial);
  if (!account.held_back_by.empty()) row["held_back_by"] = account.held_back_by;
  if (!viewer.may_see(account.owner)) {
    for (const char* field : {"labels", "command", "processes"}) hide(row, field);
    return row;
  }
  row["labels"] = account.labels;
  row["command"] = account.command;
  row["processes"] = json::array();
  for (const ProcessView& process : account.processes) row["processes"].push_back(process_json(process));
  return row;
}

json ungoverned_json(const UngovernedView& view, const Viewer& viewer) {
  json row{{"workload", nullptr},       {"workload_na", "not started through ration"},
           {"gpu", view.gpu},           {"governed", false},
           {"user", view.process.user}, {"policy", "report"}};
  put(row, "used_bytes", view.process.driver_used, "the driver does not say");
  const auto text = [&](const std::string& field, const std::string& value, const char* reason) {
    row[field] = value.empty() ? json(nullptr) : json(value);
    if (value.empty()) row[field + "_na"] = reason;
  };
  text("container", view.container, "in no container");
  text("origin", view.origin, "its cgroup does not tell");
  json process{{"pid", view.process.pid}, {"state", name_of(view.process.state)}};
  if (viewer.is_operator)
    process["command"] = view.process.command;
  else
    hide(process, "command");
  row["processes"] = json::array({process});
  return row;
}

json rows_json(const Snapshot& snapshot, const Viewer& viewer) {
  json rows = json::array();
  for (const AccountView& account : snapshot.accounts) rows.push_back(account_json(account, viewer));
  for (const UngovernedView& process : snapshot.ungoverned) rows.push_back(ungoverned_json(process, viewer));
  return rows;
}

}  // namespace ration::node
