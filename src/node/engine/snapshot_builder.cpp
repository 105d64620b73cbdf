#include "node/engine/snapshot_builder.hpp"

#include "admission/configured_promises.hpp"

namespace ration::node {
namespace {

WorkloadStatus status_of(const std::string& path, const Subjects& subjects) {
  const LimitRecords& records = subjects.limits;
  const Suspension& suspension = subjects.residency.suspension();
  WorkloadStatus status;
  if (const std::uint64_t since_ns = records.activity.since_ns(path); since_ns != 0) status.last_activity_ns = since_ns;
  status.driver_enforced = records.driver_limits.is_applied(path);
  status.suspended = suspension.is_suspended(path);
  status.resuming = status.suspended && suspension.state_of(path) != Suspension::State::kSuspended;
  const OwnedWorkload* owned = records.limits.find(path);
  if (owned == nullptr) return status;
  status.limits = records.limits.in_book(path);
  status.limit_changes = owned->changes;
  status.altered = owned->altered;
  for (const OwnedLimit& limit : owned->accounts) {
    status.configured_limits.push_back(limit.configured);
    status.guarantees.push_back(limit.guarantee);
    status.held_back_by.push_back(limit.held_back_by);
  }
  return status;
}

}  // namespace

void SnapshotBuilder::build(Moment& moment, const Subjects& subjects) {
  std::unordered_map<std::string, WorkloadStatus> known;
  for (const auto& [path, workload] : moment.registry.workloads()) known[path] = status_of(path, subjects);
  Snapshot& snapshot = moment.snapshot = build_snapshot(moment.registry, moment.machine, known, moment.now_ns);
  snapshot.time_ns = moment.time_of_day_ns;
  for (AccountView& account : snapshot.accounts)
    if (account.gpu && subjects.limits.unchecked.has(account.path)) account.guarantee = Bytes{0};
  for (DeviceView& device : snapshot.devices) {
    device.keep_free = admission::kept_free(moment.configuration, device.device);
    device.sliced = DevicePromises::reserved_on(moment, device.device) - device.keep_free;
  }
  for (DeviceView& device : snapshot.devices) subjects.promises.note(moment, device);
  forecast_devices(forecast_, snapshot, moment.now_ns);
  forecast_limits(forecast_, snapshot, moment.now_ns);
  constexpr const char* kAnswers[] = {"report", "warn", "terminate"};
  for (UngovernedView& process : snapshot.ungoverned)
    process.policy = kAnswers[static_cast<std::size_t>(moment.configuration.defaults.ungoverned.value)];
}

}  // namespace ration::node
