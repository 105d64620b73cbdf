#include "node/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "machine/user_names.hpp"
#include "node/state_file.hpp"
#include "node/subject.hpp"
#include "node/whole_file.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

Node::Node(NodeOptions options, config::Configuration configuration)
    : options_(std::move(options)),
      configuration_(std::move(configuration)),
      limits_(options_.state_folder.empty() ? "" : options_.state_folder + "/limits.json"),
      folders_file_(options_.state_folder.empty() ? "" : options_.state_folder + "/folders.json"),
      tenants_(options_.state_folder.empty() ? "" : options_.state_folder + "/tenants.json"),
      schedules_(options_.state_folder.empty() ? "" : options_.state_folder + "/schedules.json"),
      configured_schedules_(configuration_.schedules),
      driver_limits_(options_.driver_folder, options_.cgroup_of ? options_.cgroup_of : cgroup_folder_of),
      alerts_(configuration_.alerts.rules.value),
      suspension_(options_.checkpoint_jobs != nullptr
                      ? std::move(options_.checkpoint_jobs)
                      : std::make_unique<CheckpointProcesses>(
                            "/proc/self/exe", options_.driver_folder,
                            options_.state_folder.empty() ? "" : options_.state_folder + "/checkpoint.lock")) {
  apply_schedules();
  adopt_known_folders();
  registry_.set_tenant_rule([this](const Workload& workload) { return tenant_of(workload); });
  registry_.set_folder_rule([this](const std::string& folder) { return claims_.is_anothers(folder); });
  registry_.set_node_rule([this](const Workload& workload) { return is_of_this_node(workload); });
}

// A book is its owner's to write: whom it names is charged only if its owner may be charged to them.
std::string Node::tenant_of(const Workload& workload) {
  const std::string& named = workload.book.tenant;
  if (allowed_.count({workload.owner, named}) != 0) return named;
  // Whoever was charged before a restart is charged still, whatever the book says by now.
  if (const OwnedWorkload* owned = limits_.find(workload.path); owned != nullptr && owned->owner == workload.owner &&
                                                                owned->file_number == workload.file_number &&
                                                                !owned->tenant.empty())
    return owned->tenant;
  config::Subject subject;
  subject.user = workload.user;
  subject.uid = workload.owner;
  subject.groups = machine::groups_of(workload.owner);
  subject.labels = labels_of(workload.book.labels);
  // Made while no daemon answered, it names nobody who is known here; then the rules say who is charged.
  const auto& tenants = configuration_.tenants;
  const bool names_a_tenant =
      std::any_of(tenants.begin(), tenants.end(), [&](const auto& each) { return each.name.value == named; });
  subject.asks_for_another = machine::names_another_user(named, workload.owner);
  subject.is_operator = machine::is_operator(workload.owner);
  if (names_a_tenant || subject.asks_for_another) subject.asked_tenant = named;
  if (const auto assigned = config::tenant_for(configuration_, subject)) return assigned->tenant;
  subject.asked_tenant.clear();
  const auto by_rule = config::tenant_for(configuration_, subject);
  const std::string charged = by_rule ? by_rule->tenant : workload.user;
  Event event = event_of(workload, "violation",
                         fmt::format("the book of {} names tenant {}, to whom {} does not belong: {} is charged",
                                     workload.book.name, named, workload.user, charged));
  event.tenant = charged;
  not_told_yet_.push_back(std::move(event));
  return charged;
}

Result<void> Node::adopt(const std::string& folder, std::uint32_t owner) {
  const auto before = registry_.folders();
  if (auto known = registry_.adopt(folder, owner); !known) return known;
  if (const std::string real = real_folder(folder); claims_.is_anothers(real))
    return fail("E1530",
                fmt::format("the books in {} are governed by another daemon: {}.", folder, claims_.governor_of(real)),
                "Leave --socket and RATION_SOCKET out, or RATION_RUNTIME_DIR=<another folder of yours>", 5);
  if (registry_.folders() == before || folders_file_.empty()) return {};
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [path, whose] : registry_.folders()) rows.push_back({path, whose});
  return write_whole_file(folders_file_, rows.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

// Who was governed before a restart is not to be taken for somebody who never was.
void Node::adopt_known_folders() {
  const char* lost =
      "workloads of folders other than its own are governed again when one more starts there: ration ps.";
  std::string damage = read_state_file(folders_file_, lost, [this](const nlohmann::json& rows) {
    if (!rows.is_array()) throw std::invalid_argument("it is no list");
    std::vector<std::pair<std::string, std::uint32_t>> known;
    for (const auto& row : rows)
      known.emplace_back(row.at(0).get<std::string>(), whole_number<std::uint32_t>(row.at(1)));
    for (const auto& [folder, owner] : known)  // one that is gone, or has another owner by now, is left out
      (void)registry_.adopt(folder, owner);
  });
  for (std::string text : {limits_.lost(), tenants_.lost(), schedules_.lost(), std::move(damage)})
    if (!text.empty()) not_told_yet_.push_back(plain_event("daemon", std::move(text)));
}

void Node::configure(config::Configuration configuration) {
  configuration_ = std::move(configuration);
  configured_schedules_ = configuration_.schedules;
  apply_schedules();
  alerts_.configure(configuration_.alerts.rules.value);
  policies_.clear();
}

void Node::look_at_devices() {
  machine_ = machine::look_at_machine(options_.driver_folder);
  if (!machine_) return;
  for (const machine::Device& device : machine_->devices) devices_seen_.insert(device.bytes);
}

// A simulated node and the real one, or two simulated ones, share folders, and no device. Whoever was governed here
// before a restart is so still, also when its device has been lost since then.
bool Node::is_of_this_node(const Workload& workload) const {
  const OwnedWorkload* owned = limits_.find(workload.path);
  const auto& accounts = workload.book.accounts;
  return devices_seen_.empty() || accounts.empty() ||
         (owned != nullptr && owned->file_number == workload.file_number) ||
         std::any_of(accounts.begin(), accounts.end(),
                     [&](const auto& account) { return devices_seen_.count(account.device) != 0; });
}

Result<void> Node::check_devices(const std::vector<std::string>& uuids) const {
  if (!machine_ || uuids.empty()) return {};
  std::vector<std::string> own;
  for (const machine::Device& device : machine_->devices) own.push_back(device.uuid);
  const bool any = std::any_of(uuids.begin(), uuids.end(), [&](const std::string& uuid) {
    return std::find(own.begin(), own.end(), uuid) != own.end();
  });
  if (any) return {};
  return fail("E1532", fmt::format("this daemon governs other GPUs: {}.", fmt::join(own, ", ")),
              "RATION_SOCKET=<the socket of the daemon that governs these>, or leave --wait out", 4);
}

std::vector<Event> Node::look(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (first_look_ns_ == 0) {
    first_look_ns_ = now_ns;
    look_at_devices();  // to know whose the books are that are read first
  }
  std::vector<Event> events;
  Changes changes = registry_.refresh();
  std::move(not_told_yet_.begin(), not_told_yet_.end(), std::back_inserter(events));
  not_told_yet_.clear();
  follow_the_clock(events);
  look_at_devices();
  if (!machine_ && !machine_lost_)
    events.push_back(plain_event("daemon", "the devices cannot be asked: " + machine_.error().what));
  machine_lost_ = !machine_;

  for (const std::string& path : changes.started) {
    const auto running = registry_.workloads().find(path);
    if (running == registry_.workloads().end()) continue;  // it has ended already
    if (!limits_.take_up(running->second)) continue;
    note_started(running->second, events);
    unchecked_.insert(path);
  }
  for (const Workload& workload : changes.ended) note_ended(workload, events);
  for (const Workload& workload : changes.handed_over) forget(workload);
  for (const Damaged& damaged : changes.damaged) {
    Event event = plain_event("guard_lost", "a book cannot be read: " + damaged.text);
    event.user = damaged.user;
    event.workload = damaged.workload;
    event.tenant = damaged.tenant;
    events.push_back(std::move(event));
  }
  for (const auto& [path, workload] : registry_.workloads()) note_denials(workload, events);
  note_waits(events);
  note_activity();
  std::vector<std::string> failed;
  for (const Alteration& altered : limits_.enforce(registry_, failed)) {
    const Workload& workload = registry_.workloads().at(altered.path);
    Event event = event_of(workload, "violation",
                           fmt::format("{}/{} changed its own {} to {}; it was put back to {}", workload.book.tenant,
                                       workload.book.name, altered.is_guarantee ? "guarantee" : "limit",
                                       format_size(altered.found), format_size(altered.owned)));
    event.old_value = std::to_string(altered.found.count());
    event.new_value = std::to_string(altered.owned.count());
    event.gpu = gpu_of(workload.book.accounts[altered.account].device);
    events.push_back(std::move(event));
  }
  for (const std::string& book : failed)
    events.push_back(plain_event("guard_lost", "a limit cannot be written: " + book));
  note_suspension(events);  // after the books were compared: it writes some
  slices_ = options_.slices();
  if (machine_) balance_devices(*machine_, events);

  if (machine_) hold_by_driver(events);
  snapshot_ = ration::node::look(registry_, machine_, knowledge(), now_ns);
  note_slices();
  check_promises(events);
  for (DeviceView& device : snapshot_.devices) note_promises(device, snapshot_.accounts, guarantees_on(device.device));
  for (DeviceView& device : snapshot_.devices) {
    const auto used = device.used();
    if (!used) continue;
    forecast_.note(device.device.uuid, *used, now_ns);
    device.seconds_to_full = forecast_.seconds_to_full(device.device.uuid, *device.device.free);
  }
  forecast_limits(forecast_, snapshot_);
  constexpr const char* kAnswers[] = {"report", "warn", "terminate"};
  for (UngovernedView& outsider : snapshot_.ungoverned)
    outsider.policy = kAnswers[static_cast<std::size_t>(configuration_.defaults.ungoverned.value)];
  note_ungoverned(events);
  note_shrinking(events);
  note_orphaned(events);
  note_unrequested();
  note_violators(events);
  warn_of_soft_limits(events);
  deal_with_ungoverned(events);
  note_trims(events);
  mind_the_idle(events);
  break_standstills(events);
  bring_back(events);
  raise_alerts(events);
  const auto saved = limits_.save();
  if (!saved && !save_problem_told_) events.push_back(plain_event("daemon", saved.error().what));
  save_problem_told_ = !saved;
  for (Event& event : events)
    if (event.time == 0) event.time = history::to_ms(now_ns);
  return events;
}

// `ration run` asks before it promises anything; a book can say what it likes. Whoever was away finds others on its
// device, to whom more may have been promised meanwhile.
void Node::check_promises(std::vector<Event>& events) {
  if (!machine_) return;  // another look will tell where they are
  std::vector<std::pair<AccountView*, Bytes>> asked;
  const std::set<std::string> unchecked = std::exchange(unchecked_, {});
  for (AccountView& account : snapshot_.accounts)
    if (account.gpu && unchecked.count(account.path) != 0)
      asked.emplace_back(&account, std::exchange(account.guarantee, Bytes{0}));
  std::stable_sort(asked.begin(), asked.end(),
                   [](const auto& one, const auto& other) { return one.first->started_ns < other.first->started_ns; });
  for (const auto& [view, guarantee] : asked) {
    AccountView& account = *view;
    if (guarantee == Bytes{0}) continue;
    const auto device = std::find_if(snapshot_.devices.begin(), snapshot_.devices.end(),
                                     [&](const DeviceView& each) { return each.device.index == *account.gpu; });
    const Workload& workload = registry_.workloads().at(account.path);
    const bool was_away = returned_.count(account.path) != 0;
    auto possible = can_promise(*device, account.tenant, guarantee, account.path);  // its slice is taken: by it
    if (possible && !was_away && !machine::is_operator(workload.owner))
      possible = may_promise(*device, account.tenant, guarantee, "");
    if (possible) {
      account.guarantee = guarantee;
      continue;
    }
    const std::string who = account.tenant + "/" + account.workload, why = possible.error().what;
    tell_moves_of(workload, events);
    events.push_back(event_of(
        workload, was_away ? "rebalanced" : "violation",
        was_away ? fmt::format("{} is back without its guarantee of {}: {}", who, format_size(guarantee), why)
                 : fmt::format("{} promises itself {}: {} It has no guarantee", who, format_size(guarantee), why)));
    limits_.find(account.path)->accounts[account.account].guarantee = Bytes{0};
    limits_.changed();
    if (const auto written = limits_.write(workload); !written)
      events.push_back(plain_event("guard_lost", written.error().what));
  }
  returned_.clear();
}

void Node::forget(const Workload& workload) {
  const auto erase = [&](auto&... kept) { (kept.erase(workload.path), ...); };
  erase(activity_, returning_, cannot_leave_, policies_, trims_, waits_, waits_told_, unchecked_, returned_, wanted_);
  for (std::uint32_t account = 0; account < workload.book.accounts.size(); ++account)
    shrinking_.erase({workload.path, account});
  driver_limits_.release(workload.path);
  const auto forget_in = [&](auto&... parts) { (parts.forget(workload.path), ...); };
  forget_in(idle_, suspension_, limits_, limit_moves_);
}

bool Node::anything_moves() const {
  const bool unsure_of_outsiders =
      std::any_of(known_ungoverned_.begin(), known_ungoverned_.end(), [](const auto& each) { return !each.second; });
  return unsure_of_outsiders || suspension_.anything_moves() || suspension_.anybody_may_ask() || !trims_.empty() ||
         !violators_.empty() ||
         std::any_of(others_.begin(), others_.end(), [](const auto& entry) { return entry.second.unsure(); });
}

bool Node::anybody_held_back() const {
  return std::any_of(snapshot_.accounts.begin(), snapshot_.accounts.end(),
                     [](const AccountView& account) { return !account.held_back_by.empty(); });
}

std::unordered_map<std::string, Knowledge> Node::knowledge() const {
  std::unordered_map<std::string, Knowledge> known;
  for (const auto& [path, workload] : registry_.workloads()) {
    const OwnedWorkload* owned = limits_.find(path);
    Knowledge& entry = known[path];
    if (const auto activity = activity_.find(path); activity != activity_.end())
      entry.last_activity_ns = activity->second.since_ns;
    entry.suspended = suspension_.is_away(path);
    entry.by_driver = driver_limits_.holds(path);
    entry.comes_back = entry.suspended && suspension_.state_of(path) != Suspension::State::kAway;
    if (owned == nullptr) continue;
    entry.limits = limits_.in_book(path);
    entry.limit_changes = owned->changes;
    for (const OwnedLimit& limit : owned->accounts) {
      entry.configured_limits.push_back(limit.configured);
      entry.guarantees.push_back(limit.guarantee);
      entry.held_back_by.push_back(limit.held_back_by);
    }
  }
  return known;
}

}  // namespace ration::node
