#include "node/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "node/decisions/balance.hpp"
#include "node/origin.hpp"
#include "node/people.hpp"
#include "node/subject.hpp"
#include "node/whole_file.hpp"
#include "policy/denials.hpp"

namespace ration::node {
namespace {

using history::Event;

constexpr std::uint64_t kNsPerMs = 1'000'000;

std::string text_of(Bytes bytes) { return format_size(bytes); }

Event plain_event(const char* type, std::string text) {
  Event event;
  event.type = type;
  event.text = std::move(text);
  return event;
}

history::RunKey key_of(const ledger::BookSnapshot& book) {
  return {book.run_number, static_cast<history::TimeMs>(book.created_ns / kNsPerMs)};
}

}  // namespace

Node::Node(NodeOptions options, policy::Configuration configuration)
    : options_(std::move(options)),
      configuration_(std::move(configuration)),
      limits_(options_.state_folder.empty() ? "" : options_.state_folder + "/limits.json"),
      folders_file_(options_.state_folder.empty() ? "" : options_.state_folder + "/folders.json"),
      tenants_(options_.state_folder.empty() ? "" : options_.state_folder + "/tenants.json"),
      driver_limits_(options_.driver_folder, options_.cgroup_of ? options_.cgroup_of : cgroup_folder_of),
      alerts_(configuration_.alerts.rules.value),
      suspension_(options_.checkpoint_jobs != nullptr
                      ? std::move(options_.checkpoint_jobs)
                      : std::make_unique<CheckpointProcesses>(
                            "/proc/self/exe", options_.driver_folder,
                            options_.state_folder.empty() ? "" : options_.state_folder + "/checkpoint.lock")) {
  adopt_known_folders();
  registry_.set_tenant_rule([this](const Workload& workload) { return tenant_of(workload); });
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
  policy::Subject subject;
  subject.user = workload.user;
  subject.uid = workload.owner;
  subject.groups = groups_of(workload.owner);
  subject.labels = labels_of(workload.book.labels);
  // Made while no daemon answered, it names nobody who is known here; then the rules say who is charged.
  const auto& tenants = configuration_.tenants;
  const bool names_a_tenant =
      std::any_of(tenants.begin(), tenants.end(), [&](const auto& each) { return each.name.value == named; });
  if (names_a_tenant) subject.asked_tenant = named;
  if (const auto assigned = policy::tenant_for(configuration_, subject)) return assigned->tenant;
  subject.asked_tenant.clear();
  const auto by_rule = policy::tenant_for(configuration_, subject);
  const std::string charged = by_rule ? by_rule->tenant : workload.user;
  Event event = event_of(workload, "violation",
                         fmt::format("the book of {} names tenant {}, to whom {} does not belong: {} is charged",
                                     workload.book.name, named, workload.user, charged));
  event.tenant = charged;
  refused_tenants_.push_back(std::move(event));
  return charged;
}

Result<void> Node::adopt(const std::string& folder, std::uint32_t owner) {
  const std::size_t before = registry_.folders().size();
  if (auto known = registry_.adopt(folder, owner); !known) return known;
  if (registry_.folders().size() == before || folders_file_.empty()) return {};
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [path, whose] : registry_.folders()) rows.push_back({path, whose});
  return write_whole_file(folders_file_, rows.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

// Who was governed before a restart is not to be taken for somebody who never was.
void Node::adopt_known_folders() {
  if (folders_file_.empty()) return;
  std::ifstream file(folders_file_);
  const auto rows = nlohmann::json::parse(file, nullptr, false);
  try {
    for (const auto& row : rows)  // one that is gone, or has another owner by now, is left out
      (void)registry_.adopt(row.at(0).get<std::string>(), row.at(1).get<std::uint32_t>());
  } catch (const nlohmann::json::exception&) {  // damaged, or the first start
  }
}

void Node::configure(policy::Configuration configuration) {
  configuration_ = std::move(configuration);
  alerts_.configure(configuration_.alerts.rules.value);
  policies_.clear();
}

std::vector<Event> Node::look(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (first_look_ns_ == 0) first_look_ns_ = now_ns;
  std::vector<Event> events;
  Changes changes = registry_.refresh();
  std::move(refused_tenants_.begin(), refused_tenants_.end(), std::back_inserter(events));
  refused_tenants_.clear();
  follow_the_clock(events);
  machine_ = policy::look_at_machine(options_.driver_folder);
  if (!machine_ && !machine_lost_)
    events.push_back(plain_event("daemon", "the devices cannot be asked: " + machine_.error().what));
  machine_lost_ = !machine_;

  for (const std::string& path : changes.started) {
    const auto running = registry_.workloads().find(path);
    if (running == registry_.workloads().end()) continue;  // it has ended already
    if (limits_.take_up(running->second)) note_started(running->second, events);
  }
  for (const Workload& workload : changes.ended) note_ended(workload, events);
  for (const std::string& damaged : changes.damaged)
    events.push_back(plain_event("guard_lost", "a book cannot be read: " + damaged));
  for (const auto& [path, workload] : registry_.workloads()) note_denials(workload, events);
  note_activity();
  std::vector<std::string> failed;
  for (const Alteration& altered : limits_.enforce(registry_, failed)) {
    const Workload& workload = registry_.workloads().at(altered.path);
    Event event = event_of(
        workload, "violation",
        fmt::format("{}/{} changed its own {} to {}; it was put back to {}", workload.book.tenant, workload.book.name,
                    altered.is_guarantee ? "guarantee" : "limit", text_of(altered.found), text_of(altered.owned)));
    event.old_value = std::to_string(altered.found.count());
    event.new_value = std::to_string(altered.owned.count());
    event.gpu = gpu_of(workload.book.accounts[altered.account].device);
    events.push_back(std::move(event));
  }
  for (const std::string& book : failed)
    events.push_back(plain_event("guard_lost", "a limit cannot be written: " + book));
  note_suspension(events);  // after the books were compared: it writes some
  if (machine_) balance_devices(*machine_, events);

  if (machine_) hold_by_driver(events);
  snapshot_ = ration::node::look(registry_, machine_, knowledge(), now_ns);
  for (DeviceView& device : snapshot_.devices) {
    forecast_.note(device.device.uuid, device.used(), now_ns);
    device.seconds_to_full = forecast_.seconds_to_full(device.device.uuid, device.device.free);
  }
  forecast_limits(forecast_, snapshot_);
  constexpr const char* kAnswers[] = {"report", "warn", "terminate"};
  for (UngovernedView& outsider : snapshot_.ungoverned)
    outsider.policy = kAnswers[static_cast<std::size_t>(configuration_.defaults.ungoverned.value)];
  note_ungoverned(events);
  note_orphaned(events);
  note_violators(events);
  warn_of_soft_limits(events);
  deal_with_ungoverned(events);
  note_trims(events);
  mind_the_idle(events);
  bring_back(events);
  raise_alerts(events);
  if (const auto saved = limits_.save(); !saved) events.push_back(plain_event("daemon", saved.error().what));
  for (Event& event : events)
    if (event.time == 0) event.time = static_cast<history::TimeMs>(now_ns / kNsPerMs);
  return events;
}

// ----------------------------------------------------------------------------------------------------- what happened

Event Node::event_of(const Workload& workload, const char* type, std::string text) const {
  Event event = plain_event(type, std::move(text));
  event.workload = workload.book.name;
  event.tenant = workload.book.tenant;
  event.user = workload.user;
  if (!workload.book.accounts.empty()) event.gpu = gpu_of(workload.book.accounts.front().device);
  return event;
}

std::optional<int> Node::gpu_of(const ledger::DeviceUuid& uuid) const {
  if (!machine_) return std::nullopt;
  for (const policy::Device& device : machine_->devices)
    if (device.bytes == uuid) return device.index;
  return std::nullopt;
}

void Node::note_started(const Workload& workload, std::vector<Event>& events) {
  std::string limits;
  for (const auto& account : workload.book.accounts)
    limits += fmt::format("{}{}", limits.empty() ? "" : ", ", text_of(account.limit));
  Event event =
      event_of(workload, "started",
               fmt::format("{}/{} started with a limit of {}", workload.book.tenant, workload.book.name, limits));
  event.time = static_cast<history::TimeMs>(workload.book.created_ns / kNsPerMs);
  event.pid = workload.book.creator.pid;
  events.push_back(std::move(event));
}

void Node::note_ended(const Workload& workload, std::vector<Event>& events) {
  const bool known = limits_.find(workload.path) != nullptr;
  activity_.erase(workload.path);
  wanted_.erase(workload.path);
  idle_.forget(workload.path);
  suspension_.forget(workload.path);
  driver_limits_.release(workload.path);
  returning_.erase(workload.path);
  policies_.erase(workload.path);
  trims_.erase(workload.path);
  if (!known) {
    if (workload.book.created_ns < first_look_ns_) return;  // it was over before this daemon began
    note_started(workload, events);                         // it began and ended between two looks
  }
  limits_.forget(workload.path);
  note_denials(workload, events);
  Bytes peak;
  for (const auto& account : workload.book.accounts) peak = std::max(peak, account.peak);
  const std::uint64_t ended = workload.book.ended_ns != 0 ? workload.book.ended_ns : now_ns_;
  const bool told = workload.book.ended_ns != 0;
  Event event =
      event_of(workload, "ended",
               fmt::format("{}/{} ended {}, its peak was {}", workload.book.tenant, workload.book.name,
                           told ? fmt::format("with {}", workload.book.exit_status) : std::string("without saying how"),
                           text_of(peak)));
  event.time = static_cast<history::TimeMs>(ended / kNsPerMs);
  events.push_back(std::move(event));
  gone_.push_back(workload);
  ended_.push_back(
      {key_of(workload.book), static_cast<history::TimeMs>(ended / kNsPerMs), told ? workload.book.exit_status : -1});
}

void Node::note_denials(const Workload& workload, std::vector<Event>& events) {
  auto& wanted = wanted_[workload.path];
  wanted.assign(workload.book.accounts.size(), Bytes{0});
  for (std::size_t account = 0; account < std::min(wanted.size(), workload.book.wanted.size()); ++account)
    wanted[account] = workload.book.wanted[account];
  for (const ledger::Denial& denial : workload.book.denials) {
    const auto explained = policy::explain_denial(denial, workload.book, true);
    recent_denials_[workload.book.tenant + "/" + workload.book.name].push_back(denial.time_ns);
    if (denial.account < wanted.size()) wanted[denial.account] = std::max(wanted[denial.account], denial.requested);
    if (options_.recorded(explained.id)) continue;
    Event event = event_of(
        workload, workload.book.on_deny == ledger::OnDeny::kWait && denial.waited_ns > 0 ? "waited" : "denied",
        fmt::format("{}/{} was refused {}: it held {} of its limit {}", workload.book.tenant, workload.book.name,
                    text_of(denial.requested), text_of(denial.used), text_of(denial.limit)));
    event.time = static_cast<history::TimeMs>(denial.time_ns / kNsPerMs);
    event.pid = denial.pid;
    event.bytes = static_cast<std::int64_t>(denial.requested.count());
    event.denial = explained.id;
    event.fix = explained.fix;
    if (denial.account < workload.book.accounts.size())
      event.gpu = gpu_of(workload.book.accounts[denial.account].device);
    const bool told = denial.device_free != ledger::kUnknownBytes;
    event.why = nlohmann::json{{"because", explained.because},
                               {"not_because", explained.not_because},
                               {"fix", explained.fix},
                               {"function", denial.function},
                               {"used_bytes", denial.used.count()},
                               {"limit_bytes", denial.limit.count()},
                               {"device_free_bytes", told ? nlohmann::json(denial.device_free) : nlohmann::json()},
                               {"waited_seconds", static_cast<double>(denial.waited_ns) / 1e9}}
                    .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    events.push_back(std::move(event));
  }
}

void Node::note_activity() {
  for (const auto& [path, workload] : registry_.workloads()) {
    Activity& activity = activity_[path];
    if (activity.since_ns == 0 || activity.used != workload.used || activity.denials != workload.book.denial_count)
      activity = {workload.used, workload.book.denial_count, now_ns_};
  }
}

void Node::note_ungoverned(std::vector<Event>& events) {
  std::set<std::pair<int, std::int32_t>> present;
  for (const UngovernedView& view : snapshot_.ungoverned) {
    present.emplace(view.gpu, view.process.pid);
    if (known_ungoverned_.count({view.gpu, view.process.pid}) != 0) continue;
    Event event = plain_event(
        "ungoverned",
        fmt::format(
            "pid {} ({}, {}) holds {} on GPU {} and was not started through ration{}", view.process.pid,
            view.process.command.empty() ? "n/a" : view.process.command, view.process.user,
            view.process.driver_used ? text_of(*view.process.driver_used) : "n/a (the driver does not say)", view.gpu,
            view.container.empty() ? view.origin.empty() ? "" : ": " + view.origin : ": container " + view.container));
    event.gpu = view.gpu;
    event.pid = view.process.pid;
    event.user = view.process.user;
    if (view.process.driver_used) event.bytes = static_cast<std::int64_t>(view.process.driver_used->count());
    event.fix = "ration run --limit SIZE -- …";
    events.push_back(std::move(event));
  }
  known_ungoverned_ = std::move(present);
}

void Node::note_orphaned(std::vector<Event>& events) {
  constexpr Bytes kWorthTelling{std::uint64_t{256}
                                << 20};  // less than one more context is what measurements are off by
  for (const DeviceView& device : snapshot_.devices) {
    if (!device.orphaned) continue;
    Orphaned& known = orphaned_[device.device.uuid];
    const Bytes now = known.amount.note(*device.orphaned);
    const bool told = std::exchange(known.told, now >= kWorthTelling);
    if (told || !known.told) continue;
    const std::string path = fmt::format("/dev/nvidia{}", device.device.index);
    std::string who;
    for (const Opener& opener : openers_of(path))
      who += fmt::format("{}pid {} ({}, state {})", who.empty() ? "" : ", ", opener.pid, opener.command, opener.state);
    Event event =
        plain_event("orphaned", fmt::format("{} of GPU {} are in use, and the driver lists no process with them; {}",
                                            text_of(now), device.device.index,
                                            who.empty() ? path + " is open nowhere" : path + " is open in " + who));
    event.gpu = device.device.index;
    event.bytes = static_cast<std::int64_t>(now.count());
    event.fix = fmt::format("ration explain --gpu {}", device.device.index);
    events.push_back(std::move(event));
  }
}

// A book is read a moment before the driver is: what a program takes in between looks like bytes beside its book. Who
// evades it is still there at the third look.
void Node::note_violators(std::vector<Event>& events) {
  constexpr int kLooksInARow = 3;
  std::map<std::pair<int, std::int32_t>, int> present;
  for (AccountView& account : snapshot_.accounts) {
    for (ProcessView& process : account.processes) {
      if (process.state != ProcessState::kViolator) continue;
      const std::pair<int, std::int32_t> key{account.gpu.value_or(-1), process.pid};
      const int looks = present[key] = std::min(violators_[key] + 1, kLooksInARow + 1);
      if (looks < kLooksInARow) process.state = ProcessState::kManaged;
      if (looks >= kLooksInARow) {  // that is what it has
        const Bytes beside = *process.driver_used - process.used;
        account.used += beside;
        for (DeviceView& device : snapshot_.devices) {
          if (device.device.index != account.gpu) continue;
          device.governed += beside;
          device.unexplained -= std::min(device.unexplained, beside);
        }
      }
      if (looks != kLooksInARow) continue;
      Event event = plain_event(
          "violation", fmt::format("pid {} of {}/{} uses {} by the driver, {} by its book", process.pid, account.tenant,
                                   account.workload, text_of(*process.driver_used), text_of(process.used)));
      event.workload = account.workload;
      event.tenant = account.tenant;
      event.user = account.user;
      event.gpu = account.gpu;
      event.pid = process.pid;
      events.push_back(std::move(event));
    }
  }
  violators_ = std::move(present);
}

// ------------------------------------------------------------------------------------------------------- what to do

// A book says no more than its limit, unless that was lowered below what is held; then the driver knows of it. Others'
// limits do not hang on what else is written there.
Bytes Node::believed(const Workload& workload, std::uint32_t account, Bytes effective) const {
  constexpr Bytes kBesideIt{std::uint64_t{1} << 30};  // code, driver: as for violators
  const Bytes said = workload.used[account];
  if (said <= effective) return said;
  const auto view = std::find_if(snapshot_.accounts.begin(), snapshot_.accounts.end(), [&](const AccountView& each) {
    return each.path == workload.path && each.account == account;
  });
  if (view == snapshot_.accounts.end()) return effective;
  Bytes held;
  for (const ProcessView& process : view->processes) {
    if (!process.driver_used) return said;  // nobody knows better
    held += *process.driver_used;
  }
  return std::min(said, std::max(effective, held + kBesideIt));
}

namespace {

// A charge over the limit sleeps until the daemon has looked. Where more cannot be had even for who asks, it is refused
// then, and so is every one as large, until the next look; unless somebody gives back, or it was told to wait.
Bytes ceiling_of(Bytes configured, Bytes effective, const BalanceAccount& account, bool may_come) {
  const Bytes needed = account.used + account.wants;
  if (account.wants == Bytes{0} || needed <= effective || may_come)
    return configured > effective ? configured : Bytes{0};
  const Bytes below = needed - std::min(needed, kGranule);
  return below > effective ? std::min(below, configured) : Bytes{0};
}

}  // namespace

void Node::balance_devices(const policy::Machine& machine, std::vector<Event>& events) {
  std::map<std::string, bool> resized;
  for (const policy::Device& device : machine.devices) {
    BalanceInput input;
    Bytes governed;
    std::vector<std::pair<const Workload*, std::uint32_t>> places;
    for (const auto& [path, workload] : registry_.workloads()) {
      OwnedWorkload* owned = limits_.find(path);
      if (owned == nullptr || suspension_.is_away(path)) continue;
      for (std::uint32_t account = 0; account < workload.book.accounts.size(); ++account) {
        if (workload.book.accounts[account].device != device.bytes) continue;
        const OwnedLimit& mine = owned->accounts[account];
        BalanceAccount entry;
        entry.id = fmt::format("{}/{}", workload.book.tenant, workload.book.name);
        entry.tenant = workload.book.tenant;
        entry.limit = mine.configured;
        entry.guarantee = workload.book.slice.empty() ? mine.guarantee : mine.configured;
        entry.used = believed(workload, account, mine.effective);
        entry.wants = wanted_[path][account];
        entry.effective = mine.effective;
        governed += entry.used;
        input.accounts.push_back(std::move(entry));
        places.emplace_back(&workload, account);
      }
    }
    const Bytes used = device.total - device.free;
    // Ungoverned, and the driver's own.
    const Bytes others = others_[device.uuid].note(used - std::min(used, governed));
    input.capacity = device.total - std::min(device.total, others);
    if (const auto* rule = policy::device_for(configuration_, device.index, device.uuid, device.name);
        rule != nullptr && rule->keep_free.value.is_set()) {
      const auto kept = rule->keep_free.value.on(device.total, device.free);
      if (kept) input.capacity -= std::min(input.capacity, *kept);
    }
    for (const TenantNow& tenant : tenants_.all()) {
      BalanceTenant entry{tenant.name, kUnlimited, Bytes{0}};
      if (const auto limit = tenant.limit.on(device.total, device.free)) entry.limit = *limit;
      if (tenant.guarantee.is_set())
        if (const auto guarantee = tenant.guarantee.on(device.total, device.free)) entry.guarantee = *guarantee;
      input.tenants.push_back(std::move(entry));
      for (BalanceAccount& account : input.accounts)
        if (account.tenant == tenant.name) account.priority = static_cast<int>(tenant.priority);
    }
    std::vector<const Workload*> workloads;
    for (const auto& place : places) workloads.push_back(place.first);
    std::vector<std::string> because;
    apply_policies(device, workloads, input, because);
    const std::vector<Balanced> balanced = balance(input);
    const bool somebody_gives_back =
        std::any_of(balanced.begin(), balanced.end(), [](const Balanced& each) { return each.shrinking; });
    for (std::size_t i = 0; i < balanced.size(); ++i) {
      const auto& [workload, account] = places[i];
      OwnedLimit& mine = limits_.find(workload->path)->accounts[account];
      mine.held_back_by = balanced[i].reason == LimitReason::kConfigured ? because[i] : to_text(balanced[i]);
      mine.ceiling = ceiling_of(mine.configured, balanced[i].effective, input.accounts[i],
                                somebody_gives_back || workload->book.on_deny == ledger::OnDeny::kWait);
      if (mine.effective == balanced[i].effective) continue;
      Event event = event_of(*workload, "rebalanced",
                             fmt::format("{}/{} may hold {} instead of {}{}", workload->book.tenant,
                                         workload->book.name, text_of(balanced[i].effective), text_of(mine.effective),
                                         mine.held_back_by.empty() ? "" : ": " + mine.held_back_by));
      event.gpu = device.index;
      event.old_value = std::to_string(mine.effective.count());
      event.new_value = std::to_string(balanced[i].effective.count());
      mine.effective = balanced[i].effective;
      limits_.changed();
      if (const auto written = limits_.write(*workload); !written)
        events.push_back(plain_event("guard_lost", written.error().what));
      events.push_back(std::move(event));
    }
  }
}

void Node::raise_alerts(std::vector<Event>& events) {
  std::vector<policy::Fact> facts;
  const auto bytes = [](Bytes size) { return static_cast<double>(size.count()); };
  for (const DeviceView& device : snapshot_.devices) {
    facts.push_back(
        {"device.used", fmt::format("GPU {}", device.device.index), bytes(device.used()), bytes(device.device.total)});
    if (device.seconds_to_full)
      facts.push_back({"device.time_to_full", fmt::format("GPU {}", device.device.index),
                       static_cast<double>(*device.seconds_to_full) * 1e9, std::nullopt});
  }
  std::map<std::pair<std::string, int>, std::pair<Bytes, Bytes>> tenants;
  for (const AccountView& account : snapshot_.accounts) {
    auto& [used, limit] = tenants[{account.tenant, account.gpu.value_or(-1)}];
    used += account.used;
    limit += account.limit;
    if (account.used == Bytes{0}) continue;
    facts.push_back({"idle", fmt::format("{}/{}", account.tenant, account.workload),
                     static_cast<double>(account.idle_ns), std::nullopt});
  }
  for (const auto& [key, sums] : tenants)
    facts.push_back(
        {"tenant.used", fmt::format("{} on GPU {}", key.first, key.second), bytes(sums.first), bytes(sums.second)});
  constexpr std::uint64_t kMinuteNs = 60'000'000'000;
  for (auto& [name, times] : recent_denials_) {
    std::erase_if(times, [&](std::uint64_t time) { return time + kMinuteNs < now_ns_; });
    if (!times.empty()) facts.push_back({"denials", name, static_cast<double>(times.size()), std::nullopt});
  }
  std::erase_if(recent_denials_, [](const auto& entry) { return entry.second.empty(); });
  facts.push_back({"queue.length", "the queue", static_cast<double>(queue_length_), std::nullopt});
  for (const Event& event : events)
    if (event.type == "guard_lost") facts.push_back({"guard.lost", event.text, 1, std::nullopt});
  for (const policy::AlertChange& change : alerts_.evaluate(facts, std::chrono::nanoseconds(now_ns_))) {
    events.push_back(plain_event(
        "alert", fmt::format("{}: {} ({})", change.about, change.raised ? "raised" : "cleared", change.rule)));
  }
}

bool Node::anything_moves() const {
  return suspension_.anything_moves() || suspension_.anybody_may_ask() || !trims_.empty() || !violators_.empty() ||
         std::any_of(others_.begin(), others_.end(), [](const auto& entry) { return entry.second.unsure(); });
}

bool Node::anybody_held_back() const {
  return std::any_of(snapshot_.accounts.begin(), snapshot_.accounts.end(),
                     [](const AccountView& account) { return !account.held_back_by.empty(); });
}

std::map<std::string, Knowledge> Node::knowledge() const {
  std::map<std::string, Knowledge> known;
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
      entry.held_back_by.push_back(limit.held_back_by);
    }
  }
  return known;
}

// The book's peak is that of the whole run: what has grown has grown since the last sample.
Bytes Node::new_peak(const Workload& workload, std::uint32_t account, Bytes used) {
  auto& known = peaks_[workload.path];
  known.resize(std::max<std::size_t>(known.size(), account + 1));
  const Bytes peak = std::min(workload.book.accounts[account].peak, workload.book.accounts[account].device_total);
  if (peak <= known[account]) return used;
  known[account] = peak;
  return std::max(peak, used);
}

history::Sample Node::take_sample() {
  history::Sample sample;
  sample.time_ns = static_cast<std::int64_t>(snapshot_.time_ns);
  const auto denials_of = [](const Workload& workload, std::uint32_t account) {
    return static_cast<std::uint64_t>(std::count_if(workload.book.denials.begin(), workload.book.denials.end(),
                                                    [&](const auto& denial) { return denial.account == account; }));
  };
  std::map<std::string, std::size_t> places;
  for (const DeviceView& device : snapshot_.devices) {
    places[device.device.uuid] = sample.devices.size();
    sample.devices.push_back({device.device.uuid, device.device.name, device.device.total, device.used(),
                              device.ungoverned, device.unexplained + device.orphaned.value_or(Bytes{0})});
  }
  for (const AccountView& account : snapshot_.accounts) {
    const auto place = places.find(account.uuid);
    if (place == places.end()) continue;
    const Workload& workload = registry_.workloads().at(account.path);
    const Bytes peak = new_peak(workload, account.account, account.used);
    sample.workloads.push_back({{account.run, static_cast<history::TimeMs>(account.started_ns / kNsPerMs)},
                                account.workload,
                                account.tenant,
                                account.user,
                                account.labels,
                                place->second,
                                account.used,
                                account.suspended ? Bytes{0} : account.limit,  // nothing is kept for it meanwhile
                                account.suspended ? Bytes{0} : account.guarantee,
                                account.suspended ? account.used : peak,
                                denials_of(workload, account.account)});
  }
  // Begun and over between two looks, or refused and over: nothing was held at the looks, and it was there all the
  // same.
  for (const Workload& workload : std::exchange(gone_, {})) {
    for (std::uint32_t account = 0; account < workload.book.accounts.size(); ++account) {
      const auto place = std::find_if(
          snapshot_.devices.begin(), snapshot_.devices.end(),
          [&](const DeviceView& device) { return device.device.bytes == workload.book.accounts[account].device; });
      if (place == snapshot_.devices.end()) continue;
      sample.workloads.push_back({key_of(workload.book), workload.book.name, workload.book.tenant, workload.user,
                                  workload.book.labels, static_cast<std::size_t>(place - snapshot_.devices.begin()),
                                  Bytes{0}, workload.book.accounts[account].limit, Bytes{0},
                                  new_peak(workload, account, Bytes{0}), denials_of(workload, account)});
    }
    peaks_.erase(workload.path);
  }
  return sample;
}

}  // namespace ration::node
