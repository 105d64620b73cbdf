// Lowers the limit of one workload while another's guarantee is taken up, and raises it again when there is room. Runs
// before the snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "node/events/workload_events.hpp"
#include "node/limits/balance.hpp"
#include "node/limits/promises.hpp"
#include "node/residency/settled.hpp"
#include "node/rules.hpp"

namespace ration::node {

namespace {

// A book says no more than its limit, unless that was lowered below what is held; then the driver knows of it. And it
// says nothing where the driver knew of nothing when both were read: what was taken since then is in no driver's number
// yet. Others' limits do not hang on what else is written there.
Bytes trusted_usage(const NodeState& state, const Workload& workload, std::uint32_t account, Bytes effective) {
  constexpr Bytes kBesideIt{std::uint64_t{1} << 30};  // code, driver: as for violators
  const Bytes said = workload.used[account];
  const AccountView* view = state.snapshot.account_of(workload.path, account);
  if (view == nullptr) return std::min(said, effective);  // new: its limit is what it may have
  if (view->used > kBesideIt && view->trusted_usage() == Bytes{0}) return std::min(said, kBesideIt);
  if (said <= effective) return said;
  Bytes held;
  for (const ProcessView& process : view->processes) {
    if (!process.driver_used) return said;  // nobody knows better
    held += *process.driver_used + process.managed;
  }
  return std::min(said, std::max(effective, held + kBesideIt));
}

// A charge over the limit sleeps until the next tick. Where more cannot be had even for who asks, it is denied
// then, and so is every one as large, until the next tick; unless somebody gives back, or it was told to wait.
Bytes ceiling_of(Bytes configured, Bytes effective, const BalanceAccount& account, bool may_come) {
  const Bytes needed = account.used + account.wants;
  if (account.wants == Bytes{0} || needed <= effective || may_come)
    return configured > effective ? configured : Bytes{0};
  const Bytes below = needed - std::min(needed, kGranule);
  return below > effective ? std::min(below, configured) : Bytes{0};
}

/// Who took and gave back nothing for so long gives back first.
constexpr std::uint64_t kIdleAfter = 60'000'000'000;

/// Accounts of one device that share a limit.
struct Group {
  Bytes limit;
  std::vector<std::size_t> members{};
  std::optional<Bytes> guarantee{};  ///< of all together; absent: each has its own
  std::string because{};             ///< told of one that this lowers
};

// What is left goes to those who want more, else to all, in equal parts: together they never exceed the limit, between
// two ticks either.
void share_out(const Group& group, BalanceInput& input, std::vector<Bytes>& granted,
               std::vector<std::string>& because) {
  Bytes used;
  std::size_t askers = 0;
  for (const std::size_t member : group.members) {
    used += input.accounts[member].used;
    askers += input.accounts[member].wants > Bytes{0} ? 1 : 0;
  }
  const Bytes left = group.limit - std::min(group.limit, used);
  for (const std::size_t member : group.members) {
    BalanceAccount& account = input.accounts[member];
    granted[member] = std::min(granted[member], group.limit);
    account.most = std::min(std::max(account.most, account.limit), account.used + left);
    if (group.guarantee)
      account.guarantee = std::min(account.guarantee, Bytes{group.guarantee->count() / group.members.size()});
    const bool shares = askers == 0 || account.wants > Bytes{0};
    const Bytes part = shares ? Bytes{left.count() / (askers == 0 ? group.members.size() : askers)} : Bytes{0};
    if (account.used + part >= account.limit) continue;
    account.limit = account.used + part;
    account.guarantee = std::min(account.guarantee, account.limit);
    because[member] = group.because;
  }
}

/// Of policies: one workload, one user's, or all that fit.
std::vector<Group> groups_of_policies(NodeState& state, const machine::Device& device,
                                      const std::vector<const Workload*>& workloads) {
  std::map<std::pair<const config::Policy*, std::string>, Group> groups;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const config::Policy* policy = policy_of(state, *workloads[i]);
    if (policy == nullptr || !policy->limit.value.is_set()) continue;
    const auto limit = policy->limit.value.on(device.total, device.room());
    if (!limit) continue;
    const bool each = policy->per.value == config::Per::kWorkload, user = policy->per.value == config::Per::kUser;
    Group& group = groups[{policy, each ? workloads[i]->path : user ? workloads[i]->user : std::string()}];
    group.limit = *limit;
    group.because = user ? fmt::format("{} has {} by the policy at {}", workloads[i]->user, format_size(*limit),
                                       policy->limit.origin.text())
                         : fmt::format("the policy at {} gives {}", policy->limit.origin.text(), format_size(*limit));
    group.members.push_back(i);
  }
  std::vector<Group> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

/// Of claims: the containers of one, or of several where a container has several.
std::vector<Group> groups_of_claims(const NodeState& state, const machine::Device& device,
                                    const std::vector<const Workload*>& workloads) {
  struct Claims {
    std::map<std::string, const ContainerClaim*> claims;  // by id
    std::vector<std::size_t> members;
  };
  std::vector<Claims> found;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const auto claims = claims_of(state, workloads[i]->owner, workloads[i]->book.labels, device.uuid);
    if (claims.empty()) continue;
    Claims merged{{}, {i}};
    for (const ContainerClaim* claim : claims) merged.claims[claim->id] = claim;
    std::erase_if(found, [&](const Claims& other) {
      const bool overlaps = std::any_of(claims.begin(), claims.end(), [&](const ContainerClaim* claim) {
        return other.claims.count(claim->id) != 0;
      });
      if (overlaps) {
        merged.claims.insert(other.claims.begin(), other.claims.end());
        merged.members.insert(merged.members.end(), other.members.begin(), other.members.end());
      }
      return overlaps;
    });
    found.push_back(std::move(merged));
  }
  std::vector<Group> groups;
  for (const auto& [claims, members] : found) {
    Group group{Bytes{0}, members, Bytes{0}, {}};
    std::string names;
    for (const auto& [id, claim] : claims) {
      group.limit += claim->share_of(device.uuid)->limit;
      *group.guarantee += claim->share_of(device.uuid)->guarantee;
      names += (names.empty() ? "" : ", ") + claim->name;
    }
    group.because =
        fmt::format("{} containers share the {} of claim {}", members.size(), format_size(group.limit), names);
    groups.push_back(std::move(group));
  }
  return groups;
}

class BalancingRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  [[nodiscard]] bool is_unsettled() const override;

 private:
  std::map<std::string, Settled> others_;  // by device: what is used there and not of any book
};

void BalancingRule::run(NodeState& state, Events& events) {
  if (!state.machine) return;
  for (const machine::Device& device : state.machine->devices) {
    BalanceInput input;
    Bytes governed;
    std::vector<std::pair<const Workload*, std::uint32_t>> places;
    for (const auto& [path, workload] : state.registry.workloads()) {
      OwnedWorkload* owned = state.limits.find(path);
      if (owned == nullptr || state.suspension.is_away(path)) continue;
      for (std::uint32_t account = 0; account < workload.book.accounts.size(); ++account) {
        if (workload.book.accounts[account].device != device.bytes) continue;
        const OwnedLimit& mine = owned->accounts[account];
        BalanceAccount entry;
        entry.id = fmt::format("{}/{}", workload.book.tenant, workload.book.name);
        entry.tenant = workload.book.tenant;
        entry.limit = mine.configured;
        entry.guarantee = state.running[path].unchecked ? Bytes{0} : mine.guarantee;
        entry.used = trusted_usage(state, workload, account, mine.effective);
        entry.wants = state.running[path].wanted[account];
        entry.effective = mine.effective;
        entry.idle = state.running[path].activity.since_ns + kIdleAfter < state.now_ns;
        if (!owned->altered.empty()) {  // nobody knows what it holds: what it was given is gone, and it gets no more
          entry.limit = std::min(entry.limit, mine.effective);
          entry.guarantee = std::min(entry.guarantee, entry.limit);
          entry.used = std::max(workload.used[account], mine.effective);
          entry.wants = Bytes{0};
        }
        governed += entry.used;
        input.accounts.push_back(std::move(entry));
        places.emplace_back(&workload, account);
      }
    }
    const Bytes used = device.total - std::min(device.total, device.room());
    // Ungoverned, and the driver's own.
    const Bytes others = others_[device.uuid].note(used - std::min(used, governed));
    input.capacity = device.total - std::min(device.total, others);
    input.reserved = reserved_on(state, device) + kept_for_claims(state, device);
    input.capacity -= std::min(input.capacity, input.reserved);
    std::vector<Bytes> granted;
    for (const BalanceAccount& account : input.accounts) granted.push_back(account.limit);
    for (const TenantNow& tenant : state.tenants.all()) {
      BalanceTenant entry{tenant.name, kUnlimited, Bytes{0}};
      if (const auto limit = tenant.limit.on(device.total, device.room())) entry.limit = *limit;
      if (tenant.guarantee.is_set())
        if (const auto guarantee = tenant.guarantee.on(device.total, device.room())) entry.guarantee = *guarantee;
      for (std::size_t i = 0; i < input.accounts.size(); ++i) {
        if (input.accounts[i].tenant != tenant.name) continue;
        input.accounts[i].priority = static_cast<int>(tenant.priority);
        granted[i] = std::min(granted[i], entry.limit);
      }
      input.tenants.push_back(std::move(entry));
    }
    std::vector<const Workload*> workloads;
    for (const auto& place : places) workloads.push_back(place.first);
    std::vector<std::string> because(input.accounts.size());
    for (const Group& group : groups_of_policies(state, device, workloads)) share_out(group, input, granted, because);
    for (const Group& group : groups_of_claims(state, device, workloads)) share_out(group, input, granted, because);
    const std::vector<Balanced> balanced = balance(input);
    const bool somebody_gives_back =
        std::any_of(balanced.begin(), balanced.end(), [](const Balanced& each) { return each.shrinking; });
    BalancedDevice& latest = state.balanced[device.uuid] = {std::move(input), {}, because};
    for (const auto& [workload, account] : places) latest.places.emplace_back(workload->path, account);
    for (std::size_t i = 0; i < balanced.size(); ++i) {
      const auto& [workload, account] = places[i];
      OwnedLimit& mine = state.limits.find(workload->path)->accounts[account];
      mine.held_back_by = balanced[i].reason == LimitReason::kConfigured ? because[i] : to_text(balanced[i]);
      mine.reason = balanced[i].reason;
      mine.ceiling = ceiling_of(mine.configured, balanced[i].effective, latest.input.accounts[i],
                                somebody_gives_back || workload->book.on_deny == book::OnDeny::kWait);
      mine.granted = round_down(granted[i], kGranule);
      mine.reach = balanced[i].reach;
      const bool moved = mine.effective != balanced[i].effective;
      if (moved) {
        state.limit_moves.note({workload->path, account}, mine.effective, balanced[i].effective, mine.held_back_by,
                               state.now_ns);
        mine.effective = balanced[i].effective;
        state.limits.changed();
      }
      // At once: a program that starts now sizes itself by it. What is only to be shown is in no damaged book.
      if (!moved && (state.limits.is_written(workload->path) || !workload->unreadable.empty())) continue;
      if (const auto written = state.limits.write(*workload); !written)
        events.push_back(book_unwritable_event({}, written.error()));
    }
  }
  for (const LimitMoves::Burst& burst : state.limit_moves.take_over(state.now_ns))
    if (const auto known = state.registry.workloads().find(burst.place.first);
        known != state.registry.workloads().end())
      report_limit_move(state, known->second, burst, events);
}

bool BalancingRule::is_unsettled() const {
  return std::any_of(others_.begin(), others_.end(), [](const auto& entry) { return entry.second.unsure(); });
}

}  // namespace

std::unique_ptr<Rule> balancing_rule() { return std::make_unique<BalancingRule>(); }

}  // namespace ration::node
