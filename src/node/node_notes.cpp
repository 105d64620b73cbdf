// What a look saw, told as events: who came and went, what was denied, and memory that is beside the books.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/command.hpp"
#include "machine/process_origin.hpp"
#include "node/node.hpp"
#include "policy/denials.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

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
  for (const machine::Device& device : machine_->devices)
    if (device.bytes == uuid) return device.index;
  return std::nullopt;
}

void Node::note_started(const Workload& workload, std::vector<Event>& events) {
  std::string limits;
  for (const auto& account : workload.book.accounts)
    limits += fmt::format("{}{}", limits.empty() ? "" : ", ", format_size(account.limit));
  Event event =
      event_of(workload, "started",
               fmt::format("{}/{} started with a limit of {}", workload.book.tenant, workload.book.name, limits));
  event.time = history::to_ms(workload.book.created_ns);
  event.pid = workload.book.creator.pid;
  events.push_back(std::move(event));
}

void Node::note_ended(const Workload& workload, std::vector<Event>& events) {
  const bool known = limits_.find(workload.path) != nullptr;
  if (!known) {
    if (workload.book.created_ns < first_look_ns_) return forget(workload);  // it was over before this daemon began
    note_started(workload, events);                                          // it began and ended between two looks
  }
  note_denials(workload, events);
  tell_moves_of(workload, events);
  forget(workload);
  Bytes peak;
  for (const auto& account : workload.book.accounts) peak = std::max(peak, account.peak);
  const std::uint64_t ended = workload.book.ended_ns != 0 ? workload.book.ended_ns : now_ns_;
  const bool told = workload.book.ended_ns != 0;
  Event event =
      event_of(workload, "ended",
               fmt::format("{}/{} ended {}, its peak was {}", workload.book.tenant, workload.book.name,
                           told ? fmt::format("with {}", workload.book.exit_status) : std::string("without saying how"),
                           format_size(peak)));
  event.time = history::to_ms(ended);
  events.push_back(std::move(event));
  gone_.push_back(workload);
  ended_.push_back({history::run_key(workload.book.run_number, workload.book.created_ns), history::to_ms(ended),
                    told ? workload.book.exit_status : -1});
}

/// The limit that a workload would have beside nobody, where what others are promised held it back at the denial.
std::optional<Bytes> Node::held_back_from(const Workload& workload, const ledger::Denial& denial) const {
  const OwnedWorkload* owned = limits_.find(workload.path);
  if (denial.reason != ledger::DenialReason::kLimit || owned == nullptr || denial.account >= owned->accounts.size())
    return std::nullopt;
  const OwnedLimit& mine = owned->accounts[denial.account];
  if (mine.held_back_by.empty() || denial.limit >= mine.configured) return std::nullopt;
  return mine.configured;
}

// A book does not know who holds the device, or for whom its own limit was lowered.
void Node::tell_who_has_it(const Workload& workload, const ledger::Denial& denial,
                           policy::DenialExplained& explained) const {
  if (denial.account >= workload.book.accounts.size()) return;
  const auto gpu = gpu_of(workload.book.accounts[denial.account].device);
  if (const auto configured = held_back_from(workload, denial); configured) {
    explained.because =
        fmt::format("{} held {} and might hold {} of its limit {} at that moment: {}", workload.book.name,
                    format_size(denial.used), format_size(denial.limit), format_size(*configured),
                    limits_.find(workload.path)->accounts[denial.account].held_back_by);
    if (denial.used + denial.requested <= *configured &&
        explained.fix.rfind(command({"set", workload.book.name}) + " ", 0) == 0)
      explained.fix = fmt::format("{}   (who holds what, and for whom the rest is kept); --on-deny wait",
                                  gpu ? command({"explain", "--gpu", std::to_string(*gpu)}) : command({"explain"}));
  }
  if (denial.reason != ledger::DenialReason::kDeviceFull || !gpu) return;
  Bytes most;
  std::string who;
  for (const AccountView& account : snapshot_.accounts)
    if (account.gpu == gpu && account.path != workload.path && account.credible() > most)
      most = account.credible(), who = account.tenant + "/" + account.workload;
  for (const UngovernedView& each : snapshot_.ungoverned)
    if (each.gpu == *gpu && each.process.driver_used.value_or(Bytes{0}) > most)
      most = *each.process.driver_used, who = fmt::format("pid {}, which nobody governs", each.process.pid);
  if (most > Bytes{0}) explained.because += fmt::format("; of others {} holds most: {}", who, format_size(most));
}

void Node::note_denials(const Workload& workload, std::vector<Event>& events) {
  auto& wanted = wanted_[workload.path];
  wanted.assign(workload.book.accounts.size(), Bytes{0});
  for (std::size_t account = 0; account < std::min(wanted.size(), workload.book.wanted.size()); ++account)
    wanted[account] = workload.book.wanted[account];
  for (const ledger::Denial& denial : workload.book.denials) {
    const auto explained = this->explained(workload, denial);
    const std::uint64_t time_ns = std::min(denial.time_ns, now_ns_);
    recent_denials_[workload.book.tenant + "/" + workload.book.name].push_back(time_ns);
    if (denial.account < wanted.size()) wanted[denial.account] = std::max(wanted[denial.account], denial.requested);
    if (time_ns < first_look_ns_ && options_.recorded(explained.id, history::to_ms(denial.time_ns))) continue;
    tell_moves_of(workload, events);
    const std::string who = workload.book.tenant + "/" + workload.book.name;
    const auto held_back = held_back_from(workload, denial);
    Event event = event_of(
        workload, workload.book.on_deny == ledger::OnDeny::kWait && denial.waited_ns > 0 ? "waited" : "denied",
        denial.reason == ledger::DenialReason::kNoAccount
            ? fmt::format("{} was denied {}: {}", who, denial.function, explained.because)
        : held_back ? fmt::format("{} was denied {}: it held {} and might hold {} of its limit {} at that moment", who,
                                  format_size(denial.requested), format_size(denial.used), format_size(denial.limit),
                                  format_size(*held_back))
                    : fmt::format("{} was denied {}: it held {} of its limit {}", who, format_size(denial.requested),
                                  format_size(denial.used), format_size(denial.limit)));
    event.time = history::to_ms(time_ns);
    event.pid = denial.pid;
    event.bytes = static_cast<std::int64_t>(denial.requested.count());
    event.denial = explained.id;
    event.fix = explained.fix;
    event.gpu = gpu_of(denial.device);
    const bool told = denial.device_free != ledger::kUnknownBytes;
    event.why = nlohmann::json{{"reason", explained.reason},
                               {"because", explained.because},
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

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000, kSecond = 1'000 * kMillisecond;
constexpr std::uint64_t kShortestWaitTold = 50 * kMillisecond;  // shorter ones read as none

/// Waits that nobody at the screen notices are many where programs share a card.
std::uint64_t told_again_after(std::uint64_t wait_ns) { return wait_ns < kSecond ? 60 * kSecond : 10 * kSecond; }

std::string wait_text(std::uint64_t wait_ns) {
  return wait_ns < 10 * kSecond ? fmt::format("{:.1f}s", static_cast<double>(wait_ns) / kSecond)
                                : format_duration(wait_ns);
}

}  // namespace

// Those that end in a denial are in the book; those that end well are seen only if they last from one look to another.
void Node::note_waits(std::vector<Event>& events) {
  for (const auto& [path, workload] : registry_.workloads()) {
    const auto known = waits_.find(path);
    if (workload.book.waiting > 0) {
      if (known != waits_.end()) {
        known->second.waiting = std::max(known->second.waiting, workload.book.waiting);
        continue;
      }
      const auto& wanted = workload.book.wanted;
      const auto most = static_cast<std::uint32_t>(std::max_element(wanted.begin(), wanted.end()) - wanted.begin());
      if (most >= workload.book.accounts.size()) continue;
      waits_[path] = {
          now_ns_,      workload.book.denial_count, workload.book.granted_waits,       most, workload.book.waiting,
          wanted[most], workload.used[most],        workload.book.accounts[most].limit};
    } else if (known != waits_.end()) {
      const Wait wait = known->second;
      waits_.erase(known);
      // Denied, or whoever waited has ended; or it is nothing that anybody would notice.
      const std::uint64_t length = now_ns_ - std::min(now_ns_, wait.since_ns);
      if (workload.book.denial_count != wait.denials || workload.book.granted_waits < wait.granted + wait.waiting ||
          length < kShortestWaitTold)
        continue;
      WaitsTold& told = waits_told_[path];  // a book can say so as often as it likes
      if (told.count++ == 0) told.first_ns = wait.since_ns;
      if (told.last_ns != 0 && now_ns_ < told.last_ns + told_again_after(length)) continue;
      tell_moves_of(workload, events);
      std::string text = fmt::format("{}/{} waited about {} for {} and got it: it held {} of its limit {}",
                                     workload.book.tenant, workload.book.name, wait_text(length),
                                     format_size(wait.wanted), format_size(wait.used), format_size(wait.limit));
      if (told.count > 1)
        text += fmt::format(" (the last of {} waits within {})", told.count,
                            format_duration(now_ns_ - std::min(now_ns_, told.first_ns)));
      Event event = event_of(workload, "waited", std::move(text));
      event.count = told.count;
      event.first_time = history::to_ms(told.first_ns);
      told = {now_ns_, 0, 0};
      event.bytes = static_cast<std::int64_t>(wait.wanted.count());
      event.gpu = gpu_of(workload.book.accounts[wait.account].device);
      events.push_back(std::move(event));
    }
  }
}

// Nothing is taken from whoever holds more than its limit: what stands in the way is told, once for each limit.
void Node::note_shrinking(std::vector<Event>& events) {
  for (const AccountView& account : snapshot_.accounts) {
    const auto known = shrinking_.find({account.path, account.account});
    const bool over = account.shrinking(), was_over = known != shrinking_.end() && known->second.over;
    const bool told = over && known != shrinking_.end() && known->second.limit <= account.limit;
    if (account.suspended || told || (!over && !was_over)) continue;
    const auto running = registry_.workloads().find(account.path);
    if (running == registry_.workloads().end()) continue;
    tell_moves_of(running->second, events);
    const std::string who = account.tenant + "/" + account.workload;
    Event event = event_of(running->second, "shrinking", who + " is under its limit again");
    if (over) {
      const Bytes beyond = account.used - account.limit;
      const std::string held = format_size(account.used), more = format_size(beyond),
                        limit = format_size(account.limit);
      event.text =
          account.movable >= beyond
              ? fmt::format(
                    "{} holds {}, {} more than its limit {}: its next request moves as much of its managed "
                    "memory to the host",
                    who, held, more, limit)
              : fmt::format(
                    "{} holds {}, {} more than its limit {}: more is denied until it is under; of what it holds {} "
                    "are in pools of the driver, {} in contexts, and the rest is in use",
                    who, held, more, limit, format_size(std::min(account.pooled, account.used)),
                    format_size(account.context));
      event.bytes = static_cast<std::int64_t>((account.used - account.limit).count());
      event.fix = command({"trim", account.workload});
    }
    event.gpu = account.gpu;
    events.push_back(std::move(event));
    shrinking_[{account.path, account.account}] = {over ? account.limit : known->second.limit, over};
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
  // Its book may have been made between the reading of the books and that of the driver: the second look tells.
  std::map<std::pair<int, std::int32_t>, bool> present;
  for (const UngovernedView& view : snapshot_.ungoverned) {
    const auto known = known_ungoverned_.find({view.gpu, view.process.pid});
    const bool seen_before = known != known_ungoverned_.end();
    present[{view.gpu, view.process.pid}] = seen_before;
    if (!seen_before || known->second) continue;
    Event event = plain_event(
        "ungoverned", fmt::format("pid {} ({}, {}) holds {} on GPU {}, {}{}", view.process.pid,
                                  view.process.command.empty() ? "n/a" : view.process.command, view.process.user,
                                  view.process.driver_used ? format_size(*view.process.driver_used)
                                                           : fmt::format("n/a ({})", view.process.untold),
                                  view.gpu, view.why(),
                                  view.container.empty() ? view.origin.empty() ? "" : ": " + view.origin
                                                         : ": container " + view.container));
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
    const auto& mig = device.device.mig;
    const std::string path = fmt::format("/dev/nvidia{}", mig ? mig->gpu : device.device.index);
    std::string who;
    for (const machine::Opener& opener : machine::openers_of(path))
      who += fmt::format("{}pid {} ({}, state {})", who.empty() ? "" : ", ", opener.pid, opener.command, opener.state);
    Event event =
        plain_event("orphaned", fmt::format("{} of GPU {} are in use, and the driver lists no process with them; {}",
                                            format_size(now), device.device.index,
                                            who.empty() ? path + " is open nowhere" : path + " is open in " + who));
    event.gpu = device.device.index;
    event.bytes = static_cast<std::int64_t>(now.count());
    event.fix = command({"explain", "--gpu", std::to_string(device.device.index)});
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
        const Bytes found = *process.driver_used - process.used_by_driver();
        const Bytes beside = found - std::min(found, account.unrequested);  // of which the account has that already
        account.used += beside;
        for (DeviceView& device : snapshot_.devices) {
          if (device.device.index != account.gpu) continue;
          device.governed += beside;
          if (device.unexplained) *device.unexplained -= std::min(*device.unexplained, beside);
        }
      }
      if (looks != kLooksInARow) continue;
      Event event = plain_event(
          "violation", fmt::format("pid {} of {}/{} uses {} by the driver, {} by its book", process.pid, account.tenant,
                                   account.workload, format_size(*process.driver_used), format_size(process.used)));
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

}  // namespace ration::node
