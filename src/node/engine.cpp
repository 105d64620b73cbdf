#include "node/engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/own_folder.hpp"
#include "machine/user_names.hpp"
#include "node/books/known_folders.hpp"
#include "node/events/workload_events.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {

Engine::Engine(NodeOptions options, config::Configuration configuration)
    : state_(std::move(options), std::move(configuration)),
      folders_file_(state_.options.state_folder.empty() ? "" : state_.options.state_folder + "/folders.json"),
      before_(rules_before_snapshot(state_.options)),
      after_(rules_after_snapshot()) {
  for (const auto* rules : {&before_, &after_})
    for (const auto& rule : *rules) rule->configure(state_.configuration);
  load_folders();
  state_.registry.set_tenant_rule([this](const Workload& workload) { return tenant_of(workload); });
  state_.registry.set_folder_rule(
      [this](const std::string& folder) { return state_.folder_claims.is_governed_elsewhere(folder); });
  state_.registry.set_node_rule([this](const Workload& workload) { return is_of_this_node(workload); });
}

Events Engine::tick(std::uint64_t now_ns, std::uint64_t time_of_day_ns) {
  state_.now_ns = now_ns, state_.time_of_day_ns = time_of_day_ns;
  if (state_.first_tick_ns == 0) {
    state_.first_tick_ns = time_of_day_ns;
    query_devices();  // the first refresh needs the devices to recognise this node's books
  }
  state_.first_tick_ns =
      std::min(state_.first_tick_ns, time_of_day_ns);  // after a step back of the clock, present books count as new
  state_.changes = state_.registry.refresh();
  Events events = std::exchange(state_.pending_events, {});
  query_devices();
  if (!state_.machine && !machine_lost_) events.push_back(devices_lost_event(state_.machine.error()));
  machine_lost_ = !state_.machine;
  state_.slices = state_.options.slices();

  run(before_, events);
  builder_.build(state_, events);
  run(after_, events);

  const auto saved = state_.limits.save();
  if (!saved && !state_.save_failure_reported) events.push_back(daemon_event(saved.error().what));
  state_.save_failure_reported = !saved;
  const history::TimeMs now = history::to_ms(time_of_day_ns);
  for (Event& event : events) {
    if (event.time > now && event.first_time == 0) event.first_time = event.time;  // the clock was set back
    if (event.time == 0 || event.time > now) event.time = now;
  }
  return events;
}

void Engine::run(const Rules& rules, Events& events) {
  for (const auto& rule : rules) {
    rule->run(state_, events);
    for (const std::string& path : std::exchange(state_.forgotten, {}))
      for (const auto* all : {&before_, &after_})
        for (const auto& each : *all) each->forget(path);
  }
}

void Engine::query_devices() {
  state_.machine = state_.options.query_devices();
  if (!state_.machine) return;
  for (const machine::Device& device : state_.machine->devices) state_.devices_seen.insert(device.bytes);
}

Events Engine::finish() {
  Events events;
  for (const auto& [path, workload] : state_.registry.workloads()) report_limit_moves(state_, workload, events);
  return events;
}

void Engine::configure(config::Configuration configuration) {
  state_.configuration = std::move(configuration);
  state_.configured_schedules = state_.configuration.schedules;
  apply_schedules(state_);
  for (auto& [path, running] : state_.running) running.policy.reset();
  for (const auto* rules : {&before_, &after_})
    for (const auto& rule : *rules) rule->configure(state_.configuration);
}

// Returns the tenant to charge. An owner can write any tenant into the book, so the owner must have the right to charge
// it.
std::string Engine::tenant_of(const Workload& workload) {
  const std::string& named = workload.book.tenant;
  if (state_.allowed.has(workload.person, named)) return named;
  // The tenant from before a restart stays, whatever the book says now.
  if (const OwnedWorkload* owned = state_.limits.find(workload.path);
      owned != nullptr && owned->owner == workload.owner && owned->file_number == workload.file_number &&
      !owned->tenant.empty())
    return owned->tenant;
  config::Subject subject = subject_of(workload);
  // A book made without a daemon may name an unknown tenant; then the rules decide.
  const auto& tenants = state_.configuration.tenants;
  const bool names_a_tenant =
      std::any_of(tenants.begin(), tenants.end(), [&](const auto& each) { return each.name.value == named; });
  subject.asks_for_another = machine::names_another_user(named, workload.person);
  subject.is_operator = machine::is_operator(workload.person);
  if (names_a_tenant || subject.asks_for_another) subject.asked_tenant = named;
  if (const auto assigned = config::tenant_for(state_.configuration, subject)) return assigned->tenant;
  subject.asked_tenant.clear();
  const auto by_rule = config::tenant_for(state_.configuration, subject);
  const std::string charged = by_rule ? by_rule->tenant : workload.user;
  EventSubject subject_charged = event_subject(state_, workload);
  subject_charged.tenant = charged;
  state_.pending_events.push_back(wrong_tenant_event(subject_charged, named));
  return charged;
}

Result<void> Engine::watch(const std::string& folder, std::uint32_t owner) {
  const auto before = state_.registry.folders();
  RATION_TRY(state_.registry.watch(folder, owner));
  if (const std::string real = real_path(folder); state_.folder_claims.is_governed_elsewhere(real))
    return fail("E1530",
                fmt::format("the books in {} are governed by another daemon: {}.", folder,
                            state_.folder_claims.governor_of(real)),
                "Leave --socket and RATION_SOCKET out, or RATION_RUNTIME_DIR=<another folder of yours>", 5);
  if (state_.registry.folders() == before) return {};
  return save_folders(folders_file_, state_.registry.folders());
}

// Registers the saved folders, so that workloads from before a restart do not count as ungoverned, and reports damaged
// files.
void Engine::load_folders() {
  restore_folders(folders_file_, state_.registry);
  for (const Message& text : {state_.limits.damage(), state_.tenants.damage(), state_.schedules.damage(),
                              state_.container_claims.damage(), folders_file_.damage()})
    if (!text.empty()) state_.pending_events.push_back(daemon_event(text));
}

// Simulated and real nodes share folders, but no device. A workload governed before a restart stays so, even if its
// device is lost.
bool Engine::is_of_this_node(const Workload& workload) const {
  const OwnedWorkload* owned = state_.limits.find(workload.path);
  const auto& accounts = workload.book.accounts;
  return state_.devices_seen.empty() || accounts.empty() ||
         (owned != nullptr && owned->file_number == workload.file_number) ||
         std::any_of(accounts.begin(), accounts.end(),
                     [&](const auto& account) { return state_.devices_seen.count(account.device) != 0; });
}

Result<void> Engine::check_devices(const std::vector<std::string>& uuids) const {
  if (!state_.machine || uuids.empty()) return {};
  std::vector<std::string> own;
  for (const machine::Device& device : state_.machine->devices) own.push_back(device.uuid);
  const bool any = std::any_of(uuids.begin(), uuids.end(), [&](const std::string& uuid) {
    return std::find(own.begin(), own.end(), uuid) != own.end();
  });
  if (any) return {};
  return fail("E1532", fmt::format("this daemon governs other GPUs: {}.", fmt::join(own, ", ")),
              "RATION_SOCKET=<the socket of the daemon that governs these>, or leave --wait out", 4);
}

bool Engine::is_unsettled() const {
  const auto unsettled = [](const Rules& rules) {
    return std::any_of(rules.begin(), rules.end(), [](const auto& rule) { return rule->is_unsettled(); });
  };
  return state_.suspension.is_moving() || state_.suspension.may_request_resume() || unsettled(before_) ||
         unsettled(after_);
}

bool Engine::has_lowered_limit() const {
  return std::any_of(state_.snapshot.accounts.begin(), state_.snapshot.accounts.end(),
                     [](const AccountView& account) { return !account.held_back_by.empty(); });
}

}  // namespace ration::node
