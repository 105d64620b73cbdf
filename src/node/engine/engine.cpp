#include "node/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/own_folder.hpp"
#include "machine/user_names.hpp"
#include "node/books/known_folders.hpp"
#include "node/snapshot/config_subject.hpp"

namespace ration::node {

Engine::Engine(NodeOptions options, config::Configuration configuration)
    : options_(std::move(options)),
      subjects_(options_),
      folders_file_(options_.state_folder.empty() ? "" : options_.state_folder + "/folders.json"),
      rules_(rules_of_tick(subjects_, moment_.snapshot, options_.earlier)) {
  moment_.configuration = std::move(configuration);
  configure_rules();
  load_folders();
  moment_.registry.set_tenant_rule([this](const Workload& workload) { return tenant_of(workload); });
  moment_.registry.set_folder_rule(
      [this](const std::string& folder) { return folder_claims_.is_governed_elsewhere(folder); });
  moment_.registry.set_node_rule([this](const Workload& workload) { return is_of_this_node(workload); });
}

Effects Engine::tick(std::uint64_t now_ns, std::uint64_t time_of_day_ns) {
  moment_.now_ns = now_ns, moment_.time_of_day_ns = time_of_day_ns;
  if (moment_.first_tick_ns == 0) moment_.first_tick_ns = time_of_day_ns;
  moment_.first_tick_ns =
      std::min(moment_.first_tick_ns, time_of_day_ns);  // after the clock was set back, books made now count as new
  // Asks the driver first: a program enters its book before it holds memory, so what the driver knows is in a book. The
  // books of this node, too, are recognised by its devices.
  query_devices();
  moment_.changes = moment_.registry.refresh();
  Effects effects;
  effects.events = std::exchange(pending_events_, {});
  if (!moment_.machine && !machine_lost_) effects.events.push_back(devices_lost_event(moment_.machine.error()));
  machine_lost_ = !moment_.machine;
  moment_.slices = options_.slices();

  run(rules_.before_snapshot, effects);
  builder_.build(moment_, subjects_);
  run(rules_.after_snapshot, effects);

  if (const auto problem = subjects_.limits.limits.save_or_tell())
    effects.events.push_back(daemon_event(problem->what));
  const history::TimeMs now = history::to_ms(time_of_day_ns);
  for (Event& event : effects.events) {
    if (event.time > now && event.first_time == 0) event.first_time = event.time;  // the clock was set back
    if (event.time == 0 || event.time > now) event.time = now;
  }
  return effects;
}

void Engine::run(const Rules& rules, Effects& effects) {
  for (const auto& rule : rules) {
    rule->run(moment_, effects);
    for (const std::string& path : std::exchange(effects.forgotten, {})) {
      subjects_.forget(path);
      for (const auto* all : {&rules_.before_snapshot, &rules_.after_snapshot})
        for (const auto& each : *all) each->forget(path);
    }
  }
}

void Engine::query_devices() {
  moment_.machine = options_.query();
  if (!moment_.machine) return;
  for (const machine::Device& device : moment_.machine->devices) devices_seen_.insert(device.bytes);
}

Events Engine::finish() {
  Events events;
  for (const auto& [path, workload] : moment_.registry.workloads())
    report_limit_moves(moment_, subjects_.limits.moves, workload, events);
  return events;
}

void Engine::configure(config::Configuration configuration) {
  moment_.configuration = std::move(configuration);
  configure_rules();
}

void Engine::configure_rules() {
  subjects_.limits.policies.configure();
  for (const auto* rules : {&rules_.before_snapshot, &rules_.after_snapshot})
    for (const auto& rule : *rules) rule->configure(moment_.configuration);
}

// Returns the tenant to charge. An owner can write any tenant into the book, so the owner must have the right to charge
// it.
std::string Engine::tenant_of(const Workload& workload) {
  const std::string& named = workload.book.tenant;
  if (subjects_.allowed.has(workload.person, named)) return named;
  // A workload from before a restart keeps its tenant, whatever the book says now.
  if (const OwnedWorkload* owned = subjects_.limits.limits.find(workload.path);
      owned != nullptr && owned->owner == workload.owner && owned->file_number == workload.file_number &&
      !owned->tenant.empty())
    return owned->tenant;
  config::Subject subject = subject_of(workload);
  // A book that was made without a daemon may name an unknown tenant; then the configuration decides.
  const auto& tenants = moment_.configuration.tenants;
  const bool names_a_tenant =
      std::any_of(tenants.begin(), tenants.end(), [&](const auto& each) { return each.name.value == named; });
  subject.asks_for_another = machine::names_another_user(named, workload.person);
  subject.is_operator = machine::is_operator(workload.person);
  if (names_a_tenant || subject.asks_for_another) subject.asked_tenant = named;
  if (const auto assigned = config::tenant_for(moment_.configuration, subject)) return assigned->tenant;
  subject.asked_tenant.clear();
  const auto by_rule = config::tenant_for(moment_.configuration, subject);
  const std::string charged = by_rule ? by_rule->tenant : workload.user;
  EventSubject subject_charged = event_subject(moment_, workload);
  subject_charged.tenant = charged;
  pending_events_.push_back(wrong_tenant_event(subject_charged, named));
  return charged;
}

Result<void> Engine::watch(const std::string& folder, std::uint32_t owner) {
  const auto before = moment_.registry.folders();
  RATION_TRY(moment_.registry.watch(folder, owner));
  if (const std::string real = real_path(folder); folder_claims_.is_governed_elsewhere(real))
    return fail(
        "E1530",
        fmt::format("the books in {} are governed by another daemon: {}.", folder, folder_claims_.governor_of(real)),
        "Leave out --socket and RATION_SOCKET, or set RATION_RUNTIME_DIR=<another folder of yours>", 5);
  if (moment_.registry.folders() == before) return {};
  return save_folders(folders_file_, moment_.registry.folders());
}

// Registers the saved folders, so that workloads from before a restart do not count as ungoverned, and reports damaged
// files.
void Engine::load_folders() {
  restore_folders(folders_file_, moment_.registry);
  for (const Message& text : subjects_.damages()) report(daemon_event(text));
  if (!folders_file_.damage().empty()) report(daemon_event(folders_file_.damage()));
}

// Returns true if the workload uses a device of this node: simulated and real nodes share folders, but no devices. A
// workload that was governed before a restart stays governed, even if its device is lost.
bool Engine::is_of_this_node(const Workload& workload) const {
  const OwnedWorkload* owned = subjects_.limits.limits.find(workload.path);
  const auto& accounts = workload.book.accounts;
  return devices_seen_.empty() || accounts.empty() ||
         (owned != nullptr && owned->file_number == workload.file_number) ||
         std::any_of(accounts.begin(), accounts.end(),
                     [&](const auto& account) { return devices_seen_.count(account.device) != 0; });
}

Result<void> Engine::check_devices(const std::vector<std::string>& uuids) const {
  if (!moment_.machine || uuids.empty()) return {};
  std::vector<std::string> own;
  for (const machine::Device& device : moment_.machine->devices) own.push_back(device.uuid);
  const bool any = std::any_of(uuids.begin(), uuids.end(), [&](const std::string& uuid) {
    return std::find(own.begin(), own.end(), uuid) != own.end();
  });
  if (any) return {};
  return fail("E1532", fmt::format("this daemon governs other GPUs: {}.", fmt::join(own, ", ")),
              "RATION_SOCKET=<the socket of the daemon that governs these GPUs>, or leave --wait out", 4);
}

bool Engine::is_unsettled() const {
  const auto unsettled = [](const Rules& rules) {
    return std::any_of(rules.begin(), rules.end(), [](const auto& rule) { return rule->is_unsettled(); });
  };
  return subjects_.residency.suspension().is_moving() || subjects_.residency.suspension().may_request_resume() ||
         unsettled(rules_.before_snapshot) || unsettled(rules_.after_snapshot);
}

bool Engine::has_lowered_limit() const {
  return std::any_of(moment_.snapshot.accounts.begin(), moment_.snapshot.accounts.end(),
                     [](const AccountView& account) { return !account.held_back_by.empty(); });
}

}  // namespace ration::node
