// Lowers the limit of one workload when another workload uses a guarantee of its own, and raises the limit when there
// is room again. Runs before the snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "base/process.hpp"
#include "base/say.hpp"
#include "node/limits/limits_rules.hpp"
#include "node/limits/settled.hpp"

namespace ration::node {

namespace {

/// Returns the bytes that the workload holds: those that the driver reports, plus managed memory according to the book.
/// Returns nothing if the driver does not report them.
std::optional<Bytes> held_by_driver(const machine::Device& device, const Workload& workload, std::uint32_t account) {
  static const std::uint64_t own_namespace = own_pid_namespace();
  if (!device.processes) return std::nullopt;
  Bytes held;
  for (const book::ProcessSnapshot& process : workload.book.processes) {
    if (process.identity.pid_namespace != own_namespace) return std::nullopt;
    held += process.managed[account];
    for (const machine::DeviceProcess& listed : *device.processes) {
      if (listed.pid != process.identity.pid) continue;
      if (!listed.held) return std::nullopt;
      held += *listed.held;
    }
  }
  return held;
}

// Returns the part of an account's usage that can be believed, because a false book must not lower the limits of
// others. Usage up to the limit is believed, and more if the driver confirms it. Almost nothing is believed if the
// driver listed none of the account's processes when the latest snapshot was made.
Bytes trusted_usage(const Moment& moment, const machine::Device& device, const Workload& workload,
                    std::uint32_t account, Bytes in_force) {
  constexpr Bytes kNotInBook{std::uint64_t{1} << 30};  // for loaded code and rounding, like kNotInBooks of snapshot.cpp
  const Bytes said = workload.used[account];
  const AccountView* view = moment.snapshot.account_of(workload.path, account);
  if (view == nullptr) {  // a new workload, or one from before a restart, perhaps above a lowered limit
    const auto held = held_by_driver(device, workload, account);
    return std::min(said, held ? std::max(in_force, *held) : in_force);
  }
  if (view->used > kNotInBook && view->trusted_usage() == Bytes{0}) return std::min(said, kNotInBook);
  if (said <= in_force) return said;
  Bytes held;
  for (const ProcessView& process : view->processes) {
    if (!process.driver_used) return said;  // the driver cannot correct the book
    held += *process.driver_used + process.managed;
  }
  return std::min(said, std::max(in_force, held + kNotInBook));
}

// Returns the limit up to which a waiting request may raise the limit in force; 0 if it may not. A request for memory
// above the limit sleeps until the next tick. If the limit cannot rise far enough, that request and larger ones are
// denied until the following tick, unless another workload is shrinking or the workload waits by choice.
Bytes ceiling_of(Bytes configured, Bytes in_force, const BalanceAccount& account, bool may_wait) {
  const Bytes needed = account.used + account.demand;
  if (account.demand == Bytes{0} || needed <= in_force || may_wait)
    return configured > in_force ? configured : Bytes{0};
  const Bytes below = needed - std::min(needed, kGranule);
  return below > in_force ? std::min(below, configured) : Bytes{0};
}

/// A workload whose usage has not changed for this long shrinks first.
constexpr std::uint64_t kIdleAfter = 60'000'000'000;

/// One workload on the device, and the outcome of the balance for its limit.
struct Candidate {
  const Workload* workload = nullptr;
  std::uint32_t account = 0;
  Bytes granted;     ///< its configured limit, lowered by tenant, policy and claim
  Message reason{};  ///< the policy or claim that sets the limit, as text; empty if none does
};

/// The workloads on one device, as the balance takes them.
struct DeviceBalance {
  BalanceInput input;
  std::vector<Candidate> candidates;  ///< parallel to `input.accounts`
};

/// Accounts of one device that share a limit.
struct Group {
  Bytes limit;
  std::vector<std::size_t> members{};
  std::optional<Bytes> guarantee{};  ///< guarantee of all members together; absent if each keeps its own
  Message reason{};                  ///< the reason to show for a limit that the group's limit lowers
};

// Splits the unused rest of the group's limit evenly among the members with demand or, if no member has demand, among
// all. So the members' limits together never exceed the group's limit, even between two ticks.
void split_group_limit(const Group& group, DeviceBalance& device) {
  Bytes used;
  std::size_t askers = 0;
  for (const std::size_t member : group.members) {
    used += device.input.accounts[member].used;
    askers += device.input.accounts[member].demand > Bytes{0} ? 1 : 0;
  }
  const Bytes left = group.limit - std::min(group.limit, used);
  for (const std::size_t member : group.members) {
    BalanceAccount& account = device.input.accounts[member];
    Candidate& candidate = device.candidates[member];
    candidate.granted = std::min(candidate.granted, group.limit);
    account.limit_alone = std::min(std::max(account.limit_alone, account.limit), account.used + left);
    if (group.guarantee)
      account.guarantee = std::min(account.guarantee, Bytes{group.guarantee->count() / group.members.size()});
    const bool shares = askers == 0 || account.demand > Bytes{0};
    const Bytes part = shares ? Bytes{left.count() / (askers == 0 ? group.members.size() : askers)} : Bytes{0};
    if (account.used + part >= account.limit) continue;
    account.limit = account.used + part;
    account.guarantee = std::min(account.guarantee, account.limit);
    candidate.reason = group.reason;
  }
}

/// Groups accounts by policy: one group per workload, per user, or for all that match.
std::vector<Group> groups_of_policies(const Moment& moment, Policies& policies, const machine::Device& device,
                                      const std::vector<Candidate>& candidates) {
  std::map<std::pair<const config::Policy*, std::string>, Group> groups;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Workload& workload = *candidates[i].workload;
    const config::Policy* policy = policies.of(moment, workload);
    if (policy == nullptr || !policy->limit.value.is_set()) continue;
    const auto limit = policy->limit.value.on(device.total, device.room());
    if (!limit) continue;
    const bool each = policy->per.value == config::Per::kWorkload, user = policy->per.value == config::Per::kUser;
    Group& group = groups[{policy, each ? workload.path : user ? workload.user : std::string()}];
    group.limit = *limit;
    const std::string place = policy->limit.origin.text();
    group.reason =
        user ? say<"limit.policy_of_user">("user"_is(workload.user), "limit_bytes"_is(*limit), "place"_is(place))
             : say<"limit.policy">("place"_is(place), "limit_bytes"_is(*limit));
    group.members.push_back(i);
  }
  std::vector<Group> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

/// Groups accounts by claim: the containers of one claim, or of several claims that one container joins.
std::vector<Group> groups_of_claims(const ContainerClaims& known, const machine::Device& device,
                                    const std::vector<Candidate>& candidates) {
  struct Claims {
    std::map<std::string, const ContainerClaim*> claims;  // by id
    std::vector<std::size_t> members;
  };
  std::vector<Claims> found;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Workload& workload = *candidates[i].workload;
    const auto claims = known.of_workload(workload.owner, workload.book.labels, device.uuid);
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
    group.reason = say<"limit.claim">("count"_is(members.size()), "limit_bytes"_is(group.limit), "claims"_is(names));
    groups.push_back(std::move(group));
  }
  return groups;
}

class BalancingRule final : public Rule {
 public:
  explicit BalancingRule(BalancingSubjects subjects) : subjects_(std::move(subjects)) {}
  void run(const Moment& moment, Effects& effects) override;
  [[nodiscard]] bool is_unsettled() const override;

 private:
  [[nodiscard]] BalanceAccount account_of(const Moment& moment, const machine::Device& device, const Workload& workload,
                                          std::uint32_t account, const OwnedWorkload& owned) const;
  [[nodiscard]] DeviceBalance candidates_on(const Moment& moment, const machine::Device& device) const;
  void set_capacity(const Moment& moment, const machine::Device& device, BalanceInput& input);
  void apply_tenants(const machine::Device& device, DeviceBalance& balance) const;
  void put_in_force(const Moment& moment, const DeviceBalance& device, Events& events);

  BalancingSubjects subjects_;
  std::map<std::string, Settled> others_;  // by device: usage outside every book
};

BalanceAccount BalancingRule::account_of(const Moment& moment, const machine::Device& device, const Workload& workload,
                                         std::uint32_t account, const OwnedWorkload& owned) const {
  const OwnedLimit& mine = owned.accounts[account];
  BalanceAccount entry;
  entry.id = fmt::format("{}/{}", workload.book.tenant, workload.book.name);
  entry.tenant = workload.book.tenant;
  entry.limit = mine.configured;
  entry.guarantee = subjects_.unchecked.has(workload.path) ? Bytes{0} : mine.guarantee;
  entry.used = trusted_usage(moment, device, workload, account, mine.in_force);
  entry.demand = subjects_.demand.of(workload.path, account);
  entry.in_force = mine.in_force;
  entry.idle = subjects_.activity.since_ns(workload.path) + kIdleAfter < moment.now_ns;
  if (!owned.altered.empty()) {  // the usage is unknown, so the whole limit counts as used and does not grow
    entry.limit = std::min(entry.limit, mine.in_force);
    entry.guarantee = std::min(entry.guarantee, entry.limit);
    entry.used = std::max(workload.used[account], mine.in_force);
    entry.demand = Bytes{0};
  }
  return entry;
}

DeviceBalance BalancingRule::candidates_on(const Moment& moment, const machine::Device& device) const {
  DeviceBalance found;
  for (const auto& [path, workload] : moment.registry.workloads()) {
    const OwnedWorkload* owned = subjects_.limits.find(path);
    if (owned == nullptr || subjects_.is_suspended(path)) continue;
    for (std::uint32_t account = 0; account < workload.book.accounts.size(); ++account) {
      if (workload.book.accounts[account].device != device.bytes) continue;
      found.input.accounts.push_back(account_of(moment, device, workload, account, *owned));
      found.candidates.push_back({&workload, account, found.input.accounts.back().limit});
    }
  }
  return found;
}

void BalancingRule::set_capacity(const Moment& moment, const machine::Device& device, BalanceInput& input) {
  Bytes governed;
  for (const BalanceAccount& account : input.accounts) governed += account.used;
  const Bytes used = device.total - std::min(device.total, device.room());
  // `others` is ungoverned use and the driver's own use, smoothed by Settled.
  const Bytes others = others_[device.uuid].note(used - std::min(used, governed));
  input.outside = std::min(device.total, others);
  input.capacity = device.total - input.outside;
  input.reserved = DevicePromises::reserved_on(moment, device) + subjects_.promises.kept_for_claims(moment, device);
  input.capacity -= std::min(input.capacity, input.reserved);
}

void BalancingRule::apply_tenants(const machine::Device& device, DeviceBalance& balance) const {
  for (const TenantStatus& tenant : subjects_.tenants.all()) {
    BalanceTenant entry{tenant.name, kUnlimited, Bytes{0}};
    if (const auto limit = tenant.limit.on(device.total, device.room())) entry.limit = *limit;
    if (tenant.guarantee.is_set())
      if (const auto guarantee = tenant.guarantee.on(device.total, device.room())) entry.guarantee = *guarantee;
    for (std::size_t i = 0; i < balance.candidates.size(); ++i) {
      if (balance.input.accounts[i].tenant != tenant.name) continue;
      balance.input.accounts[i].priority = static_cast<int>(tenant.priority);
      balance.candidates[i].granted = std::min(balance.candidates[i].granted, entry.limit);
    }
    balance.input.tenants.push_back(std::move(entry));
  }
}

void BalancingRule::put_in_force(const Moment& moment, const DeviceBalance& device, Events& events) {
  const std::vector<Balanced> balanced = balance(device.input);
  const bool any_shrinking =
      std::any_of(balanced.begin(), balanced.end(), [](const Balanced& each) { return each.shrinking; });
  for (std::size_t i = 0; i < balanced.size(); ++i) {
    const auto& [workload, account, granted, reason] = device.candidates[i];
    OwnedLimit& mine = subjects_.limits.find(workload->path)->accounts[account];
    mine.held_back_by = balanced[i].reason == LimitReason::kConfigured ? reason : to_text(balanced[i]);
    mine.reason = balanced[i].reason;
    mine.ceiling = ceiling_of(mine.configured, balanced[i].in_force, device.input.accounts[i],
                              any_shrinking || workload->book.on_deny == book::OnDeny::kWait);
    mine.granted = round_down(granted, kGranule);
    mine.reach = balanced[i].reach;
    const bool moved = mine.in_force != balanced[i].in_force;
    if (moved) {
      subjects_.moves.note({workload->path, account}, mine.in_force, balanced[i].in_force, mine.held_back_by,
                           moment.now_ns);
      mine.in_force = balanced[i].in_force;
      subjects_.limits.changed();
    }
    // Writes a new limit at once, because a program that starts now sizes itself by the limit. Writes into a damaged
    // book only if the limit has moved.
    if (!moved && (subjects_.limits.is_written(workload->path) || !workload->unreadable.empty())) continue;
    if (const auto written = subjects_.limits.write(*workload); !written)
      events.push_back(book_unwritable_event({}, written.error()));
  }
}

void BalancingRule::run(const Moment& moment, Effects& effects) {
  if (!moment.machine) return;
  for (const machine::Device& device : moment.machine->devices) {
    DeviceBalance on_it = candidates_on(moment, device);
    set_capacity(moment, device, on_it.input);
    apply_tenants(device, on_it);
    for (const Group& group : groups_of_policies(moment, subjects_.policies, device, on_it.candidates))
      split_group_limit(group, on_it);
    for (const Group& group : groups_of_claims(subjects_.claims, device, on_it.candidates))
      split_group_limit(group, on_it);
    put_in_force(moment, on_it, effects.events);
    BalancedDevice& latest = subjects_.balances[device.uuid] = {};
    for (const Candidate& each : on_it.candidates) {
      latest.keys.emplace_back(each.workload->path, each.account);
      latest.reasons.push_back(each.reason);
    }
    latest.input = std::move(on_it.input);
  }
  for (const LimitMoves::Burst& burst : subjects_.moves.take_ended(moment.now_ns))
    if (const auto known = moment.registry.workloads().find(burst.account.first);
        known != moment.registry.workloads().end())
      report_limit_move(moment, known->second, burst, effects.events);
}

bool BalancingRule::is_unsettled() const {
  return std::any_of(others_.begin(), others_.end(), [](const auto& entry) { return entry.second.is_changing(); });
}

}  // namespace

std::unique_ptr<Rule> balancing_rule(BalancingSubjects subjects) {
  return std::make_unique<BalancingRule>(std::move(subjects));
}

}  // namespace ration::node
