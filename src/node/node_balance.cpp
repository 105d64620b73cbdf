// Whose limit is lowered while another's guarantee is taken up, and raised again when there is room.
#include <fmt/format.h>

#include <algorithm>

#include "node/decisions/balance.hpp"
#include "node/node.hpp"

namespace ration::node {

using history::Event;
using history::plain_event;

// A book says no more than its limit, unless that was lowered below what is held; then the driver knows of it. And it
// says nothing where the driver knew of nothing when both were read: what was taken since then is in no driver's number
// yet. Others' limits do not hang on what else is written there.
Bytes Node::believed(const Workload& workload, std::uint32_t account, Bytes effective) const {
  constexpr Bytes kBesideIt{std::uint64_t{1} << 30};  // code, driver: as for violators
  const Bytes said = workload.used[account];
  const AccountView* view = snapshot_.account_of(workload.path, account);
  if (view == nullptr) return std::min(said, effective);  // new: its limit is what it may have
  if (view->used > kBesideIt && view->credible() == Bytes{0}) return std::min(said, kBesideIt);
  if (said <= effective) return said;
  Bytes held;
  for (const ProcessView& process : view->processes) {
    if (!process.driver_used) return said;  // nobody knows better
    held += *process.driver_used + process.managed;
  }
  return std::min(said, std::max(effective, held + kBesideIt));
}

namespace {

// A charge over the limit sleeps until the daemon has looked. Where more cannot be had even for who asks, it is denied
// then, and so is every one as large, until the next look; unless somebody gives back, or it was told to wait.
Bytes ceiling_of(Bytes configured, Bytes effective, const BalanceAccount& account, bool may_come) {
  const Bytes needed = account.used + account.wants;
  if (account.wants == Bytes{0} || needed <= effective || may_come)
    return configured > effective ? configured : Bytes{0};
  const Bytes below = needed - std::min(needed, kGranule);
  return below > effective ? std::min(below, configured) : Bytes{0};
}

}  // namespace

/// Who took and gave back nothing for so long gives back first.
constexpr std::uint64_t kIdleAfter = 60'000'000'000;

void Node::balance_devices(const machine::Machine& machine, std::vector<Event>& events) {
  std::map<std::string, bool> resized;
  for (const machine::Device& device : machine.devices) {
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
        entry.guarantee = unchecked_.count(path) != 0 ? Bytes{0} : mine.guarantee;
        entry.used = believed(workload, account, mine.effective);
        entry.wants = wanted_[path][account];
        entry.effective = mine.effective;
        entry.idle = activity_[path].since_ns + kIdleAfter < now_ns_;
        governed += entry.used;
        input.accounts.push_back(std::move(entry));
        places.emplace_back(&workload, account);
      }
    }
    const Bytes used = device.total - std::min(device.total, device.room());
    // Ungoverned, and the driver's own.
    const Bytes others = others_[device.uuid].note(used - std::min(used, governed));
    input.capacity = device.total - std::min(device.total, others);
    input.reserved = reserved_on(device);
    input.capacity -= std::min(input.capacity, input.reserved);
    for (const TenantNow& tenant : tenants_.all()) {
      BalanceTenant entry{tenant.name, kUnlimited, Bytes{0}};
      if (const auto limit = tenant.limit.on(device.total, device.room())) entry.limit = *limit;
      if (tenant.guarantee.is_set())
        if (const auto guarantee = tenant.guarantee.on(device.total, device.room())) entry.guarantee = *guarantee;
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
    BalancedDevice& latest = balanced_[device.uuid] = {std::move(input), {}, because};
    for (const auto& [workload, account] : places) latest.places.emplace_back(workload->path, account);
    for (std::size_t i = 0; i < balanced.size(); ++i) {
      const auto& [workload, account] = places[i];
      OwnedLimit& mine = limits_.find(workload->path)->accounts[account];
      mine.held_back_by = balanced[i].reason == LimitReason::kConfigured ? because[i] : to_text(balanced[i]);
      mine.reason = balanced[i].reason;
      mine.ceiling = ceiling_of(mine.configured, balanced[i].effective, latest.input.accounts[i],
                                somebody_gives_back || workload->book.on_deny == ledger::OnDeny::kWait);
      if (mine.effective == balanced[i].effective) continue;
      limit_moves_.note({workload->path, account}, mine.effective, balanced[i].effective, mine.held_back_by, now_ns_);
      mine.effective = balanced[i].effective;
      limits_.changed();
      if (const auto written = limits_.write(*workload); !written)
        events.push_back(plain_event("guard_lost", written.error().what));
    }
  }
  for (const LimitMoves::Burst& burst : limit_moves_.take_over(now_ns_))
    if (const auto known = registry_.workloads().find(burst.place.first); known != registry_.workloads().end())
      tell_move(known->second, burst, events);
}

std::vector<Event> Node::finish() {
  std::vector<Event> events;
  for (const auto& [path, workload] : registry_.workloads()) tell_moves_of(workload, events);
  return events;
}

void Node::tell_moves_of(const Workload& workload, std::vector<Event>& events) {
  for (const LimitMoves::Burst& burst : limit_moves_.take_of(workload.path)) tell_move(workload, burst, events);
}

void Node::tell_move(const Workload& workload, const LimitMoves::Burst& burst, std::vector<Event>& events) const {
  std::string text = fmt::format("{}/{} may hold {} instead of {}", workload.book.tenant, workload.book.name,
                                 format_size(burst.to), format_size(burst.from));
  if (!burst.because.empty()) text += ": " + burst.because;
  const std::uint64_t length = burst.last_ns - burst.first_ns;
  if (burst.count > 1)
    text += length < 1'000'000'000
                ? fmt::format(" (the last of {} changes)", burst.count)
                : fmt::format(" (the last of {} changes within {})", burst.count, format_duration(length));
  Event event = event_of(workload, "rebalanced", std::move(text));
  event.time = history::to_ms(burst.last_ns);
  event.first_time = history::to_ms(burst.first_ns);
  event.count = static_cast<std::int64_t>(burst.count);
  event.gpu = gpu_of(workload.book.accounts[burst.place.second].device);
  event.old_value = std::to_string(burst.from.count());
  event.new_value = std::to_string(burst.to.count());
  events.push_back(std::move(event));
}

}  // namespace ration::node
