// What is done about workloads that do nothing: told, trimmed, or suspended until they work again.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"
#include "ledger/store_limits.hpp"
#include "machine/checkpoint.hpp"
#include "machine/host_memory.hpp"
#include "machine/user_names.hpp"
#include "node/node.hpp"
#include "node/subject.hpp"

namespace ration::node {
namespace {

using history::Event;

/// How long a program has for giving back: its library looks ten times a second.
constexpr std::uint64_t kTrimTime = 2'000'000'000;
/// What the host keeps free when device memory comes into it.
constexpr Bytes kHostReserve{std::uint64_t{1} << 30};
/// What a device has to have free beside what comes back: after one restore without room no other succeeds
/// (NVIDIA/cuda-checkpoint issue 44), and what the driver needs meanwhile is not known.
constexpr Bytes kRestoreMargin{std::uint64_t{256} << 20};

Bytes sum(const std::vector<Bytes>& parts) {
  Bytes total;
  for (const Bytes part : parts) total += part;
  return total;
}

IdlePolicy to_policy(const config::Idle& idle) {
  IdlePolicy result;
  result.after_ns = static_cast<std::uint64_t>(idle.after.value->count());
  result.below_percent = static_cast<int>(idle.below.value);
  result.action = idle.action.value == config::IdleAction::kSuspend ? IdleAction::kSuspend
                  : idle.action.value == config::IdleAction::kTrim  ? IdleAction::kTrim
                                                                    : IdleAction::kReport;
  return result;
}

}  // namespace

Result<const Workload*> Node::workload_for(const std::string& name, const Caller& caller) const {
  const auto named = registry_.named(name, caller.user);
  if (!named) return named;
  const Workload* workload = *named;
  if (!caller.is_operator && !(caller.user && *caller.user == workload->owner))
    return fail("E1502", fmt::format("you may not change workload {} (owner {}).", workload->book.name, workload->user),
                "Ask root or a member of group ration, or change your own: ration ps", 5);
  return workload;
}

const config::Policy* Node::policy_of(const Workload& workload) {
  const auto known = policies_.find(workload.path);
  if (known != policies_.end()) return known->second;
  config::Subject subject;
  subject.user = workload.user;
  subject.uid = workload.owner;
  subject.groups = machine::groups_of(workload.owner);
  subject.labels = labels_of(workload.book.labels);
  subject.asked_tenant = workload.book.tenant;
  if (const auto creator = creator_of(workload)) subject.cgroup = cgroup_of(*creator);
  return policies_[workload.path] = config::policy_for(configuration_, subject);
}

// Known for all processes of a device that does nothing; else by process, where the driver tells.
std::optional<int> Node::utilisation_of(const Workload& workload) const {
  if (!machine_) return std::nullopt;
  int highest = 0;
  for (const machine::Device& device : machine_->devices) {
    const bool has_it = std::any_of(workload.book.accounts.begin(), workload.book.accounts.end(),
                                    [&](const auto& account) { return account.device == device.bytes; });
    if (!has_it) continue;
    if (!device.utilisation) return std::nullopt;
    if (*device.utilisation == 0) continue;
    if (!device.processes) return std::nullopt;
    for (const AccountView& account : snapshot_.accounts) {
      if (account.path != workload.path || account.gpu != device.index) continue;
      for (const ProcessView& process : account.processes) {
        const auto same = std::find_if(device.processes->begin(), device.processes->end(),
                                       [&](const auto& each) { return each.pid == process.pid; });
        if (same == device.processes->end()) {
          if (process.driver_used || process.used == Bytes{0}) continue;  // it is not there
          return std::nullopt;
        }
        if (!same->utilisation) return std::nullopt;
        highest = std::max(highest, *same->utilisation);
      }
    }
  }
  return highest;
}

// As this pid namespace knows them. A book is its owner's to write: whom it names has to be its owner's, too.
Result<std::vector<ProcessIdentity>> Node::processes_of(const Workload& workload) const {
  std::vector<ProcessIdentity> processes;
  for (const AccountView& account : snapshot_.accounts) {
    if (account.path != workload.path || account.account != 0) continue;
    for (const ProcessView& view : account.processes) {
      const auto process = identity_of(view.pid);
      if (!process || process->user != workload.owner)
        return fail("E1547",
                    fmt::format("pid {} of {} cannot be seen from here as one of {}'s.", view.pid, workload.book.name,
                                workload.user),
                    "Its container needs the host's pid namespace.", 1);
      processes.push_back(*process);
    }
  }
  if (processes.empty())
    return fail("E1547", fmt::format("{} uses no device yet.", workload.book.name), "ration ps", 1);
  return processes;
}

// By the driver's word and by the book's, whichever is more: code and rounding are in no book, managed memory is in no
// number of the driver.
std::vector<Bytes> Node::to_be_moved(const Workload& workload) const {
  std::vector<Bytes> bytes = workload.used;
  for (const AccountView& account : snapshot_.accounts) {
    if (account.path != workload.path) continue;
    Bytes by_driver;
    for (const ProcessView& process : account.processes) by_driver += process.driver_used.value_or(Bytes{0});
    bytes[account.account] = std::max(bytes[account.account], by_driver);
  }
  return bytes;
}

Result<void> Node::host_has_room(const Workload& workload, const std::vector<ProcessIdentity>& processes,
                                 Bytes needed) const {
  const std::string fix = "Free host memory, or trim: ration trim " + workload.book.name;
  const Bytes available = machine::host_memory_available();
  if (needed + kHostReserve > available)
    return fail("E1547",
                fmt::format("the host has {} of memory free: too little for the {} of {}.", format_size(available),
                            format_size(needed), workload.book.name),
                fix, 4);
  if (options_.simulated) return {};  // whose memory lies outside of all processes, on a device or not
  for (const ProcessIdentity& process : processes) {
    const auto room = machine::room_in_memory_group(process.pid);
    if (!room || needed <= room->left) continue;
    return fail("E1547",
                fmt::format("the memory cgroup {} has {} left: the {} of {}, copied into it, would have it killed.",
                            room->group, format_size(room->left), format_size(needed), workload.book.name),
                fix, 4);
  }
  return {};
}

Result<void> Node::begin_suspension(const Workload& workload, bool held) {
  OwnedWorkload* owned = limits_.find(workload.path);
  if (owned == nullptr || suspension_.state_of(workload.path) != Suspension::State::kHere)
    return fail("E1546", fmt::format("{} is suspended, or on its way, already.", workload.book.name), "ration ps", 4);
  const auto processes = processes_of(workload);
  if (!processes) return tl::unexpected(processes.error());
  if (!machine_) return tl::unexpected(machine_.error());
  if (auto good = machine::may_be_moved(workload.book, *machine_, options_.runtime_folder, options_.simulated); !good)
    return good;
  const std::vector<Bytes> moved = to_be_moved(workload);
  if (auto room = host_has_room(workload, *processes, sum(moved)); !room) return room;
  for (std::size_t i = 0; i < std::min(moved.size(), owned->accounts.size()); ++i) owned->accounts[i].moved = moved[i];
  owned->suspended = true;
  owned->held = held;
  limits_.changed();
  if (const auto saved = limits_.save(); !saved) {  // before anything moves
    owned->suspended = owned->held = false;
    return tl::unexpected(saved.error());
  }
  suspension_.suspend(workload.path, *processes, held, now_ns_);
  return {};
}

void Node::begin_trim(const Workload& workload, const std::string& by) {
  trims_[workload.path] = {sum(workload.used), now_ns_, by};
}

Result<void> Node::suspend(const std::string& name, const Caller& caller, std::vector<Event>& events) {
  const auto workload = workload_for(name, caller);
  if (!workload) return tl::unexpected(workload.error());
  if (auto begun = begin_suspension(**workload, true); !begun) return begun;
  Event event = event_of(**workload, "suspending",
                         fmt::format("{}/{} is being suspended", (*workload)->book.tenant, (*workload)->book.name));
  event.by = caller.name;
  events.push_back(std::move(event));
  return {};
}

Result<void> Node::resume(const std::string& name, const Caller& caller) {
  const auto workload = workload_for(name, caller);
  if (!workload) return tl::unexpected(workload.error());
  if (suspension_.ask((*workload)->path, fmt::format("{} asked for it", caller.name))) return {};
  return fail("E1546", fmt::format("{} is not suspended.", (*workload)->book.name), "ration ps", 4);
}

Result<void> Node::trim(const std::string& name, const Caller& caller) {
  const auto workload = workload_for(name, caller);
  if (!workload) return tl::unexpected(workload.error());
  if (const auto status = ledger::request_trim((*workload)->descriptor, (*workload)->owner);
      status != ledger::BookStatus::kOk)
    return fail("E1411",
                fmt::format("the book of {} cannot be changed: {}.", (*workload)->book.name, ledger::describe(status)),
                "ration doctor");
  begin_trim(**workload, caller.name);
  return {};
}

// What it looks like after two seconds is what it gave back.
void Node::note_trims(std::vector<Event>& events) {
  for (auto each = trims_.begin(); each != trims_.end();) {
    const auto& [path, trim] = *each;
    if (now_ns_ < trim.since_ns + kTrimTime) {
      ++each;
      continue;
    }
    const Workload& workload = registry_.workloads().at(path);
    const Bytes now = sum(workload.used), returned = trim.used - std::min(trim.used, now);
    Event event =
        event_of(workload, "trimmed",
                 returned > Bytes{0}
                     ? fmt::format("{}/{} gave back {} of {}", workload.book.tenant, workload.book.name,
                                   format_size(returned), format_size(trim.used))
                     : fmt::format("{}/{} gave back nothing of {}: it uses all of it, or nothing in it co-operates",
                                   workload.book.tenant, workload.book.name, format_size(trim.used)));
    event.bytes = static_cast<std::int64_t>(returned.count());
    event.by = trim.by;
    events.push_back(std::move(event));
    each = trims_.erase(each);
  }
}

void Node::set_away(const Workload& workload, OwnedWorkload& owned, bool away, std::vector<Event>& events) {
  owned.away = away;
  if (const auto written = limits_.write(workload); !written)
    events.push_back(event_of(workload, "guard_lost", written.error().what));
}

void Node::note_returned(const std::string& path) {
  unchecked_.insert(path);
  returned_.insert(path);
}

void Node::note_suspension(std::vector<Event>& events) {
  using What = Suspension::Change::What;
  // Of before a restart: where they are cannot be told, so they are brought to where they were.
  for (const auto& [path, workload] : registry_.workloads()) {
    OwnedWorkload* owned = limits_.find(path);
    if (owned == nullptr || !owned->suspended || suspension_.state_of(path) != Suspension::State::kHere) continue;
    std::vector<ProcessIdentity> listed;
    for (const auto& process : workload.book.processes) listed.push_back(process.identity);
    if (machine_ && machine::is_on_device(*machine_, listed)) {
      owned->suspended = owned->held = owned->away = false;
      limits_.changed();
      note_returned(path);
      events.push_back(event_of(workload, "resumed",
                                fmt::format("{}/{} is back on its device: somebody else brought it back",
                                            workload.book.tenant, workload.book.name)));
      continue;
    }
    if (const auto processes = processes_of(workload)) {
      suspension_.adopt(path, *processes, owned->held);
      owned->away = true;
    }
  }
  for (const Suspension::Change& change : suspension_.look(now_ns_)) {
    const auto found = registry_.workloads().find(change.id);
    OwnedWorkload* owned = limits_.find(change.id);
    if (found == registry_.workloads().end() || owned == nullptr) continue;
    const Workload& workload = found->second;
    const std::string who = workload.book.tenant + "/" + workload.book.name;
    Event event;
    switch (change.what) {
      case What::kSuspended:
        event = event_of(workload, "suspended",
                         fmt::format("{} is suspended: its {} are in host memory until it works again", who,
                                     format_size(sum(workload.used))));
        event.bytes = static_cast<std::int64_t>(sum(workload.used).count());
        moves_.left.push_back(change.id);
        set_away(workload, *owned, true, events);
        break;
      case What::kNotSuspended:
        event = event_of(workload, "suspend_failed", fmt::format("{} was not suspended: {}", who, change.error->what));
        event.fix = change.error->fix;
        owned->suspended = owned->held = false;
        limits_.changed();
        cannot_leave_[change.id] = now_ns_;
        break;
      case What::kAsks:
        moves_.asking.push_back({change.id, change.because});
        event = event_of(workload, "resuming", fmt::format("{} asks for its device: {}", who, change.because));
        break;
      case What::kResumed:
        event = event_of(workload, "resumed", fmt::format("{} is back on its device", who));
        owned->suspended = owned->held = false;
        limits_.changed();
        note_returned(change.id);
        activity_[change.id].since_ns = now_ns_;
        break;
      case What::kNotResumed:
        event = event_of(workload, "suspend_failed",
                         fmt::format("{} could not be brought back yet: {}", who, change.error->what));
        event.fix = change.error->fix;
        moves_.left.push_back(change.id);
        set_away(workload, *owned, true, events);
        break;
    }
    events.push_back(std::move(event));
  }
}

// What was promised has to be there, too, and a margin: see kRestoreMargin. But no more than there can ever be.
void Node::bring_back(std::vector<Event>& events) {
  if (!machine_) return;
  std::map<ledger::DeviceUuid, Bytes> free, most;
  for (const machine::Device& device : machine_->devices) {
    const Bytes beside = device.reserved.value_or(Bytes{0}) + machine::orphaned(device).value_or(Bytes{0});
    free[device.bytes] = device.room();
    most[device.bytes] = device.total - std::min(device.total, beside);
  }
  for (auto each = returning_.begin(); each != returning_.end();) {
    const auto found = registry_.workloads().find(*each);
    if (found == registry_.workloads().end()) {
      each = returning_.erase(each);
      continue;
    }
    const Workload& workload = found->second;
    const auto& accounts = workload.book.accounts;
    OwnedWorkload* owned = limits_.find(*each);
    std::vector<Bytes> bytes = workload.used;
    for (std::size_t i = 0; owned != nullptr && i < std::min(bytes.size(), owned->accounts.size()); ++i)
      bytes[i] = std::max(bytes[i], owned->accounts[i].moved);
    bool fits = true;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      const auto& device = accounts[i].device;
      fits = fits && free[device] >= std::min(bytes[i] + kRestoreMargin, most[device]);
    }
    if (!fits || !suspension_.resume(*each)) {
      each = fits ? returning_.erase(each) : std::next(each);
      continue;
    }
    for (std::size_t i = 0; i < accounts.size(); ++i)
      free[accounts[i].device] -= std::min(free[accounts[i].device], bytes[i]);
    if (owned != nullptr) set_away(workload, *owned, false, events);
    each = returning_.erase(each);
  }
}

void Node::mind_the_idle(std::vector<Event>& events) {
  for (const auto& [path, workload] : registry_.workloads()) {
    const config::Policy* policy = policy_of(workload);
    if (policy == nullptr || !policy->idle.after.value || suspension_.state_of(path) != Suspension::State::kHere ||
        limits_.find(path) == nullptr)
      continue;
    const IdlePolicy rule = to_policy(policy->idle);
    // Who waits for memory rests because it must.
    const std::uint64_t active_ns = workload.book.waiting > 0 ? now_ns_ : activity_[path].since_ns;
    const auto decision = idle_.look({path, sum(workload.used), active_ns, utilisation_of(workload)}, rule, now_ns_);
    // What it does while it rests is told from the second half of its rest on.
    const bool rests = idle_.idle_ns(path, now_ns_).value_or(0) * 2 >= rule.after_ns;
    if (!rests || rule.action != IdleAction::kSuspend) {
      suspension_.stop_watching(path);
    } else if (const auto processes = processes_of(workload)) {
      suspension_.watch(path, *processes, now_ns_);
    }
    if (!decision) continue;
    Event event = event_of(workload, "idle",
                           fmt::format("{}/{}: {}", workload.book.tenant, workload.book.name, decision->reason));
    if (decision->action == IdleAction::kTrim) {
      if (ledger::request_trim(workload.descriptor, workload.owner) == ledger::BookStatus::kOk)
        begin_trim(workload, "policy");
      event.text += "; it is asked to give back what it does not use";
    } else if (decision->action == IdleAction::kSuspend) {
      if (const auto begun = begin_suspension(workload, false); !begun) {
        event.text += "; it is not suspended: " + begun.error().what;
        event.fix = begun.error().fix;
      } else {
        event.text += "; it is being suspended";
      }
    }
    events.push_back(std::move(event));
  }
}

}  // namespace ration::node
