#include "node/snapshot/snapshot_builder.hpp"

#include <algorithm>
#include <utility>

#include "admission/configured_promises.hpp"
#include "machine/user_names.hpp"
#include "node/events/workload_events.hpp"
#include "node/limits/promises.hpp"

namespace ration::node {
namespace {

std::unordered_map<std::string, WorkloadStatus> workload_statuses(const NodeState& state) {
  std::unordered_map<std::string, WorkloadStatus> known;
  for (const auto& [path, workload] : state.registry.workloads()) {
    const OwnedWorkload* owned = state.limits.find(path);
    WorkloadStatus& entry = known[path];
    if (const auto running = state.running.find(path); running != state.running.end()) {
      const std::uint64_t since_ns = running->second.activity.since_ns;
      if (since_ns != 0) entry.last_activity_ns = since_ns;
      entry.driver_enforced = running->second.driver_enforced;
    }
    entry.suspended = state.suspension.is_suspended(path);
    entry.resuming = entry.suspended && state.suspension.state_of(path) != Suspension::State::kSuspended;
    if (owned == nullptr) continue;
    entry.limits = state.limits.in_book(path);
    entry.limit_changes = owned->changes;
    entry.altered = owned->altered;
    for (const OwnedLimit& limit : owned->accounts) {
      entry.configured_limits.push_back(limit.configured);
      entry.guarantees.push_back(limit.guarantee);
      entry.held_back_by.push_back(limit.held_back_by);
    }
  }
  return known;
}

void note_slices(NodeState& state) {
  for (DeviceView& device : state.snapshot.devices) {
    device.keep_free = admission::kept_free(state.configuration, device.device);
    device.sliced = reserved_on(state, device.device) - device.keep_free;
  }
}

// Checks the guarantees of new workloads, which the book alone claims, and of resumed ones, whose room may have been
// promised to others meanwhile.
void check_promises(NodeState& state, Events& events) {
  if (!state.machine) return;  // a later tick checks
  Snapshot& snapshot = state.snapshot;
  std::vector<std::pair<AccountView*, Bytes>> asked;
  for (AccountView& account : snapshot.accounts)
    if (account.gpu && state.running[account.path].guarantee_unchecked)
      asked.emplace_back(&account, std::exchange(account.guarantee, Bytes{0}));
  std::stable_sort(asked.begin(), asked.end(),
                   [](const auto& one, const auto& other) { return one.first->started_ns < other.first->started_ns; });
  for (const auto& [view, guarantee] : asked) {
    AccountView& account = *view;
    if (guarantee == Bytes{0}) continue;
    const auto device = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                     [&](const DeviceView& each) { return each.device.index == *account.gpu; });
    const Workload& workload = state.registry.workloads().at(account.path);
    const bool was_suspended = state.running[account.path].was_suspended;
    auto possible = can_promise(state, *device, account.tenant, guarantee,
                                account.path);  // the workload's own slice does not count against it
    if (possible && !was_suspended && !machine::is_operator(workload.owner))
      possible = may_promise(state, *device, account.tenant, guarantee, "");
    if (possible) {
      account.guarantee = guarantee;
      continue;
    }
    report_limit_moves(state, workload, events);
    events.push_back(no_guarantee_event(event_subject(state, workload), guarantee, was_suspended, possible.error()));
    state.limits.find(account.path)->accounts[account.account].guarantee = Bytes{0};
    state.limits.changed();
    if (const auto written = state.limits.write(workload); !written)
      events.push_back(book_unwritable_event({}, written.error()));
  }
  for (auto& [path, running] : state.running) running.guarantee_unchecked = running.was_suspended = false;
}

}  // namespace

void SnapshotBuilder::build(NodeState& state, Events& events) {
  state.snapshot = build_snapshot(state.registry, state.machine, workload_statuses(state), state.now_ns);
  state.snapshot.time_ns = state.time_of_day_ns;
  note_slices(state);
  check_promises(state, events);
  for (DeviceView& device : state.snapshot.devices) note_promises(state, device);
  forecast_devices(forecast_, state.snapshot, state.now_ns);
  forecast_limits(forecast_, state.snapshot, state.now_ns);
  constexpr const char* kAnswers[] = {"report", "warn", "terminate"};
  for (UngovernedView& process : state.snapshot.ungoverned)
    process.policy = kAnswers[static_cast<std::size_t>(state.configuration.defaults.ungoverned.value)];
}

}  // namespace ration::node
