#include "node/snapshot/snapshot_builder.hpp"

#include <algorithm>
#include <utility>

#include "admission/configured_promises.hpp"
#include "machine/user_names.hpp"
#include "node/events/workload_events.hpp"
#include "node/limits/promises.hpp"

namespace ration::node {
namespace {

std::unordered_map<std::string, Knowledge> knowledge(const NodeState& state) {
  std::unordered_map<std::string, Knowledge> known;
  for (const auto& [path, workload] : state.registry.workloads()) {
    const OwnedWorkload* owned = state.limits.find(path);
    Knowledge& entry = known[path];
    if (const auto running = state.running.find(path); running != state.running.end()) {
      const std::uint64_t since_ns = running->second.activity.since_ns;
      if (since_ns != 0) entry.last_activity_ns = since_ns;
      entry.by_driver = running->second.held_by_driver;
    }
    entry.suspended = state.suspension.is_away(path);
    entry.comes_back = entry.suspended && state.suspension.state_of(path) != Suspension::State::kAway;
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

// `ration run` asks before it promises anything; a book can say what it likes. Whoever was away finds others on its
// device, to whom more may have been promised meanwhile.
void check_promises(NodeState& state, Events& events) {
  if (!state.machine) return;  // another tick will tell where they are
  Snapshot& snapshot = state.snapshot;
  std::vector<std::pair<AccountView*, Bytes>> asked;
  for (AccountView& account : snapshot.accounts)
    if (account.gpu && state.running[account.path].unchecked)
      asked.emplace_back(&account, std::exchange(account.guarantee, Bytes{0}));
  std::stable_sort(asked.begin(), asked.end(),
                   [](const auto& one, const auto& other) { return one.first->started_ns < other.first->started_ns; });
  for (const auto& [view, guarantee] : asked) {
    AccountView& account = *view;
    if (guarantee == Bytes{0}) continue;
    const auto device = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                     [&](const DeviceView& each) { return each.device.index == *account.gpu; });
    const Workload& workload = state.registry.workloads().at(account.path);
    const bool was_away = state.running[account.path].was_away;
    auto possible = can_promise(state, *device, account.tenant, guarantee, account.path);  // its slice is taken: by it
    if (possible && !was_away && !machine::is_operator(workload.owner))
      possible = may_promise(state, *device, account.tenant, guarantee, "");
    if (possible) {
      account.guarantee = guarantee;
      continue;
    }
    report_limit_moves(state, workload, events);
    events.push_back(no_guarantee_event(about(state, workload), guarantee, was_away, possible.error()));
    state.limits.find(account.path)->accounts[account.account].guarantee = Bytes{0};
    state.limits.changed();
    if (const auto written = state.limits.write(workload); !written)
      events.push_back(book_unwritable_event({}, written.error()));
  }
  for (auto& [path, running] : state.running) running.unchecked = running.was_away = false;
}

}  // namespace

void SnapshotBuilder::build(NodeState& state, Events& events) {
  state.snapshot = build_snapshot(state.registry, state.machine, knowledge(state), state.now_ns);
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
