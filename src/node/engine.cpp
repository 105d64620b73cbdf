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
  adopt_known_folders();
  state_.registry.set_tenant_rule([this](const Workload& workload) { return tenant_of(workload); });
  state_.registry.set_folder_rule([this](const std::string& folder) { return state_.claims.is_anothers(folder); });
  state_.registry.set_node_rule([this](const Workload& workload) { return is_of_this_node(workload); });
}

Events Engine::tick(std::uint64_t now_ns, std::uint64_t time_of_day_ns) {
  state_.now_ns = now_ns, state_.time_of_day_ns = time_of_day_ns;
  if (state_.first_tick_ns == 0) {
    state_.first_tick_ns = time_of_day_ns;
    query_devices();  // to know whose the books are that are read first
  }
  state_.first_tick_ns = std::min(state_.first_tick_ns, time_of_day_ns);  // set back: books of now are new
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
  if (!saved && !state_.save_problem_told) events.push_back(daemon_event(saved.error().what));
  state_.save_problem_told = !saved;
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

// A book is its owner's to write: whom it names is charged only if its owner may be charged to them.
std::string Engine::tenant_of(const Workload& workload) {
  const std::string& named = workload.book.tenant;
  if (state_.allowed.has(workload.person, named)) return named;
  // Whoever was charged before a restart is charged still, whatever the book says by now.
  if (const OwnedWorkload* owned = state_.limits.find(workload.path);
      owned != nullptr && owned->owner == workload.owner && owned->file_number == workload.file_number &&
      !owned->tenant.empty())
    return owned->tenant;
  config::Subject subject = subject_of(workload);
  // Made while no daemon answered, it names nobody who is known here; then the rules say who is charged.
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
  About whose = about(state_, workload);
  whose.tenant = charged;
  state_.pending_events.push_back(wrong_tenant_event(whose, named));
  return charged;
}

Result<void> Engine::adopt(const std::string& folder, std::uint32_t owner) {
  const auto before = state_.registry.folders();
  RATION_TRY(state_.registry.adopt(folder, owner));
  if (const std::string real = real_path(folder); state_.claims.is_anothers(real))
    return fail(
        "E1530",
        fmt::format("the books in {} are governed by another daemon: {}.", folder, state_.claims.governor_of(real)),
        "Leave --socket and RATION_SOCKET out, or RATION_RUNTIME_DIR=<another folder of yours>", 5);
  if (state_.registry.folders() == before) return {};
  return save_folders(folders_file_, state_.registry.folders());
}

// Who was governed before a restart is not to be taken for somebody who never was.
void Engine::adopt_known_folders() {
  adopt_folders(folders_file_, state_.registry);
  for (std::string text : {state_.limits.lost(), state_.tenants.lost(), state_.schedules.lost(),
                           state_.container_claims.lost(), folders_file_.damage()})
    if (!text.empty()) state_.pending_events.push_back(daemon_event(std::move(text)));
}

// A simulated node and the real one, or two simulated ones, share folders, and no device. Whoever was governed here
// before a restart is so still, also when its device has been lost since then.
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
  return state_.suspension.anything_moves() || state_.suspension.anybody_may_ask() || unsettled(before_) ||
         unsettled(after_);
}

bool Engine::anybody_held_back() const {
  return std::any_of(state_.snapshot.accounts.begin(), state_.snapshot.accounts.end(),
                     [](const AccountView& account) { return !account.held_back_by.empty(); });
}

}  // namespace ration::node
