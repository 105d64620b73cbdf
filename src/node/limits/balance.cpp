#include "node/limits/balance.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/say.hpp"

namespace ration::node {
namespace {

/// One account during the computation, in granules.
struct Share {
  const BalanceAccount* account = nullptr;
  std::size_t tenant = 0;
  std::uint64_t limit = 0, guarantee = 0, used = 0, demand = 0;
  std::uint64_t in_force = 0;
  std::uint64_t limit_alone = 0;  ///< the limit if no other account demanded memory; at least `limit`
  std::uint64_t own = 0;          ///< part of `guarantee` that does not come from the tenant

  [[nodiscard]] std::uint64_t kept() const { return std::max(guarantee, std::min(used, limit)); }
  /// Returns the granules that other tenants cannot get; taken_inside() returns the granules that other accounts of the
  /// same tenant cannot get.
  [[nodiscard]] std::uint64_t taken() const { return std::max(guarantee, used); }
  [[nodiscard]] std::uint64_t taken_inside() const { return std::max(own, used); }
  [[nodiscard]] std::uint64_t counted() const { return std::max(in_force, used); }
};

struct Tenant {
  std::string name;
  std::uint64_t limit = 0, guarantee = 0;
  std::uint64_t reserve = 0;                  ///< part of `guarantee` that its workloads cannot use
  std::uint64_t taken = 0, taken_inside = 0;  ///< sums over its workloads; `taken` includes `reserve`
};

/// A number above the sum of all unlimited accounts, each of which counts as kUnlimited.
constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 60;

std::uint64_t granules(Bytes bytes) { return round_up(std::min(bytes, kUnlimited), kGranule).count() >> 21; }
std::uint64_t whole_granules(Bytes bytes) { return round_down(bytes, kGranule).count() >> 21; }
std::uint64_t minus(std::uint64_t whole, std::uint64_t part) { return whole > part ? whole - part : 0; }

/// Splits `amount` evenly: in each round, every recipient gets a granule, unless the recipient has received its `room`,
/// or its group has received the group's room. Does equal rounds in one step. The outcome is the same as that of single
/// rounds, so no recipient gets less from a larger amount.
class EvenSplit {
 public:
  EvenSplit(std::size_t count, std::vector<std::uint64_t> group_room)
      : given(count), group_room_(std::move(group_room)) {}

  std::uint64_t amount = 0;
  std::vector<std::uint64_t> given;

  struct Recipient {
    std::size_t index, group;
    std::uint64_t room;
  };
  void distribute(std::vector<Recipient> recipients) {
    while (amount > 0) {
      std::erase_if(recipients, [&](const Recipient& recipient) {
        return recipient.room == 0 || group_room_[recipient.group] == 0;
      });
      if (recipients.empty()) return;
      round(recipients);
    }
  }

 private:
  void round(std::vector<Recipient>& recipients) {
    std::map<std::size_t, std::uint64_t> by_group;
    for (const Recipient& recipient : recipients) ++by_group[recipient.group];
    std::uint64_t rounds = amount / recipients.size();
    for (const Recipient& recipient : recipients) rounds = std::min(rounds, recipient.room);
    for (const auto& [group, members] : by_group) rounds = std::min(rounds, group_room_[group] / members);
    for (Recipient& recipient : recipients) {
      const std::uint64_t got =
          std::min({std::max<std::uint64_t>(rounds, 1), amount, recipient.room, group_room_[recipient.group]});
      amount -= got;
      recipient.room -= got;
      group_room_[recipient.group] -= got;
      given[recipient.index] += got;
    }
  }

  std::vector<std::uint64_t> group_room_;
};

class Balance {
 public:
  explicit Balance(const BalanceInput& input)
      : capacity_(whole_granules(input.capacity)),
        outside_(input.outside),
        reserved_(input.reserved),
        guaranteed_(input.reserved > Bytes{0}) {
    std::map<std::string, std::size_t> index;
    for (const BalanceTenant& tenant : input.tenants) {
      index[tenant.name] = tenants_.size();
      const std::uint64_t limit = tenant.limit >= kUnlimited ? kUnbounded : whole_granules(tenant.limit);
      tenants_.push_back({tenant.name, limit, granules(tenant.guarantee)});
    }
    for (const BalanceAccount& account : input.accounts) {
      const auto known = index.try_emplace(account.tenant, tenants_.size());
      if (known.second) tenants_.push_back({account.tenant, kUnbounded, 0});
      const std::uint64_t limit = whole_granules(account.limit);
      const std::uint64_t own = std::min(granules(account.guarantee), limit);
      shares_.push_back({&account, known.first->second, limit, own, granules(account.used), granules(account.demand), 0,
                         std::max(limit, whole_granules(account.limit_alone)), own});
    }
  }

  std::vector<Balanced> run() {
    assign_tenant_guarantees();
    for (Share& share : shares_) share.in_force = share.kept();
    keep_tenants_within_limits();
    guaranteed_ =
        guaranteed_ ||
        std::any_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.guarantee > 0; }) ||
        std::any_of(tenants_.begin(), tenants_.end(), [](const Tenant& tenant) { return tenant.reserve > 0; });
    if (guaranteed_) cut_for_guarantees();
    distribute_room();
    if (may_keep_current()) {
      for (Share& share : shares_) share.in_force = whole_granules(*share.account->in_force);
    }
    for (Tenant& tenant : tenants_) tenant.taken = tenant.reserve;
    for (const Share& share : shares_) {
      tenants_[share.tenant].taken += share.taken();
      tenants_[share.tenant].taken_inside += share.taken_inside();
      taken_ += share.taken();
    }
    for (const Tenant& tenant : tenants_) taken_ += tenant.reserve;
    std::vector<Balanced> result;
    for (const Share& share : shares_) result.push_back(result_for(share));
    return result;
  }

 private:
  std::vector<std::size_t> of_tenant(std::size_t tenant) const {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i].tenant == tenant) members.push_back(i);
    }
    return members;
  }

  std::vector<std::uint64_t> tenant_rooms() const {
    std::vector<std::uint64_t> rooms;
    for (const Tenant& tenant : tenants_) rooms.push_back(tenant.limit);
    for (const Share& share : shares_) rooms[share.tenant] = minus(rooms[share.tenant], share.counted());
    return rooms;
  }

  /// Assigns a tenant's guarantee to its workloads: by usage, then by demand, then evenly.
  void assign_tenant_guarantees() {
    for (std::size_t t = 0; t < tenants_.size(); ++t) {
      const auto members = of_tenant(t);
      EvenSplit split(shares_.size(), {tenants_[t].guarantee});
      std::uint64_t own = 0;
      for (const std::size_t i : members) own += shares_[i].guarantee;
      split.amount = minus(tenants_[t].guarantee, own);
      using Room = std::function<std::uint64_t(const Share&)>;
      const Room steps[] = {
          [](const Share& share) { return minus(std::min(share.used, share.limit), share.guarantee); },
          [](const Share& share) { return minus(std::min(share.used + share.demand, share.limit), share.guarantee); },
          [](const Share& share) { return share.limit - share.guarantee; }};
      for (const Room& room : steps) {
        std::vector<EvenSplit::Recipient> recipients;
        for (const std::size_t i : members) recipients.push_back({i, 0, minus(room(shares_[i]), split.given[i])});
        split.distribute(recipients);
      }
      for (const std::size_t i : members) shares_[i].guarantee += split.given[i];
      tenants_[t].reserve = split.amount;
    }
  }

  /// Lowers the limits of `members` by `amount` in the order of promise 4, never below a guarantee.
  void cut(std::vector<std::size_t> members, std::uint64_t amount, LimitReason reason) {
    const auto turn = [&](std::size_t i) {
      return std::make_pair(shares_[i].account->priority, !shares_[i].account->idle);
    };
    std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) { return turn(a) < turn(b); });
    for (std::size_t from = 0; from < members.size() && amount > 0;) {
      std::size_t to = from;
      while (to < members.size() && turn(members[to]) == turn(members[from])) ++to;
      amount = cut_down(
          {members.begin() + static_cast<std::ptrdiff_t>(from), members.begin() + static_cast<std::ptrdiff_t>(to)},
          amount, reason);
      from = to;
    }
  }

  /// Cuts the excess of all members to the same size, by splitting evenly the bytes that they may keep. Returns the
  /// part of `amount` that remains to be cut.
  std::uint64_t cut_down(const std::vector<std::size_t>& members, std::uint64_t amount, LimitReason reason) {
    std::uint64_t bursts = 0;
    std::vector<EvenSplit::Recipient> recipients;
    for (const std::size_t i : members) {
      const std::uint64_t burst = minus(shares_[i].in_force, shares_[i].guarantee);
      bursts += burst;
      recipients.push_back({i, 0, burst});
    }
    EvenSplit keep(shares_.size(), {bursts});
    keep.amount = minus(bursts, amount);
    keep.distribute(recipients);
    for (const std::size_t i : members) {
      const std::uint64_t now = std::min(shares_[i].in_force, shares_[i].guarantee + keep.given[i]);
      if (now < shares_[i].in_force) cut_[i] = reason;
      shares_[i].in_force = now;
    }
    return minus(amount, bursts);
  }

  void keep_tenants_within_limits() {
    for (std::size_t t = 0; t < tenants_.size(); ++t) {
      const auto members = of_tenant(t);
      std::uint64_t sum = 0;
      for (const std::size_t i : members) sum += shares_[i].in_force;
      if (sum > tenants_[t].limit) cut(members, sum - tenants_[t].limit, LimitReason::kTenantLimit);
    }
  }

  void cut_for_guarantees() {
    std::uint64_t needed = 0;
    for (const Share& share : shares_) {
      const std::uint64_t unused = minus(share.guarantee, share.used);
      needed += share.used + (share.demand > 0 ? std::min(unused, share.demand) : 0);
    }
    if (needed <= capacity_) return;
    // Earlier cuts (a lowered limit, a tenant's limit) already return some of the needed memory.
    std::uint64_t coming = 0;
    std::vector<std::size_t> all(shares_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (const Share& share : shares_) coming += minus(share.used, share.in_force);
    cut(all, minus(needed - capacity_, coming), LimitReason::kMustShrink);
  }

  void distribute_room() {
    EvenSplit split(shares_.size(), tenant_rooms());
    split.amount = guaranteed_ ? spare() : kUnbounded;
    std::vector<int> priorities;
    for (const Share& share : shares_) {
      if (share.demand > 0) priorities.push_back(share.account->priority);
    }
    std::sort(priorities.rbegin(), priorities.rend());
    priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
    for (const int priority : priorities) {
      std::vector<EvenSplit::Recipient> recipients;
      for (std::size_t i = 0; i < shares_.size(); ++i) {
        const Share& share = shares_[i];
        if (share.account->priority != priority || cut_.count(i) != 0) continue;
        const std::uint64_t target = std::min(share.limit, share.used + share.demand);
        recipients.push_back({i, share.tenant, minus(target, share.in_force)});
      }
      split.distribute(recipients);
    }
    std::vector<EvenSplit::Recipient> recipients;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const Share& share = shares_[i];
      if (cut_.count(i) != 0) continue;
      recipients.push_back({i, share.tenant, minus(share.limit, share.in_force + split.given[i])});
    }
    split.distribute(recipients);
    for (std::size_t i = 0; i < shares_.size(); ++i) shares_[i].in_force += split.given[i];
  }

  [[nodiscard]] std::uint64_t spare() const {
    std::uint64_t counted = 0;
    for (const Share& share : shares_) counted += share.counted();
    for (const Tenant& tenant : tenants_) counted += tenant.reserve;
    return minus(capacity_, counted);
  }

  /// Returns true if promise 6 keeps the present limits: they are valid, there is no demand, and little is unassigned.
  [[nodiscard]] bool may_keep_current() const {
    if (!cut_.empty()) return false;
    std::uint64_t counted = 0;
    std::vector<std::uint64_t> by_tenant(tenants_.size());
    for (const Share& share : shares_) {
      if (!share.account->in_force || share.demand > 0) return false;
      const std::uint64_t now = whole_granules(*share.account->in_force);
      if (now < share.kept() || now > share.limit) return false;
      counted += std::max(now, share.used);
      by_tenant[share.tenant] += std::max(now, share.used);
    }
    for (std::size_t t = 0; t < tenants_.size(); ++t) {
      if (by_tenant[t] > tenants_[t].limit) return false;
      counted += tenants_[t].reserve;
    }
    if (guaranteed_ && counted > capacity_) return false;
    return std::none_of(shares_.begin(), shares_.end(), [&](const Share& share) {
      const std::uint64_t left = tenants_[share.tenant].limit - by_tenant[share.tenant];
      const std::uint64_t room = guaranteed_ ? std::min(left, capacity_ - counted) : left;
      const std::uint64_t missing = share.limit - whole_granules(*share.account->in_force);
      return missing > 0 && room > 0 && (room >= missing || room > capacity_ / 32);
    });
  }

  /// Returns the limit that promise 5 would give this account if no other account had demand: all memory that others
  /// neither hold nor are guaranteed.
  [[nodiscard]] std::uint64_t reach_of(const Share& share) const {
    if (share.in_force >= share.limit_alone || cut_.count(static_cast<std::size_t>(&share - shares_.data())) != 0)
      return share.in_force;
    const Tenant& tenant = tenants_[share.tenant];
    const std::uint64_t inside = tenant.taken_inside - share.taken_inside();
    const std::uint64_t room = guaranteed_ ? minus(capacity_, taken_ - tenant.taken + inside) : kUnbounded;
    return std::max(share.in_force, std::min({share.limit_alone, room, minus(tenant.limit, inside)}));
  }

  /// Adds what others hold and what is kept for others.
  void add_holders(Balanced& result, const Share& share) const {
    result.held = result.held_most = outside_;
    result.kept_by_all = reserved_;
    for (const Share& other : shares_) {
      if (&other == &share) continue;
      result.held += other.account->used;
      result.kept_by_all += kGranule * minus(other.guarantee, other.used);
      if (other.account->used > result.held_most)
        result.holder = other.account->id, result.held_most = other.account->used;
    }
    for (const Tenant& tenant : tenants_)
      if (&tenant != &tenants_[share.tenant]) result.kept_by_all += kGranule * tenant.reserve;
  }

  [[nodiscard]] Balanced result_for(const Share& share) const {
    Balanced result;
    result.id = share.account->id;
    result.in_force = kGranule * share.in_force;
    result.reach = kGranule * reach_of(share);
    result.guarantee = kGranule * share.guarantee;
    result.shrinking = share.account->used > result.in_force;
    if (share.in_force >= share.limit) return result;
    const auto index = static_cast<std::size_t>(&share - shares_.data());
    if (const auto cut = cut_.find(index); cut != cut_.end())
      result.reason = cut->second;
    else
      result.reason = tenant_rooms()[share.tenant] == 0 ? LimitReason::kTenantLimit : LimitReason::kGuarantees;
    if (result.reason == LimitReason::kTenantLimit) return result;
    add_holders(result, share);
    std::uint64_t most = 0;
    for (const Share& other : shares_) {
      const std::uint64_t unused = minus(other.guarantee, other.used);
      const bool asks = other.demand > 0 || result.reason != LimitReason::kMustShrink;
      if (&other == &share || !asks || unused <= most) continue;
      most = unused;
      const bool of_tenant = other.own <= other.used && other.tenant != share.tenant;
      result.beneficiary = of_tenant ? tenants_[other.tenant].name : other.account->id;
    }
    result.kept = kGranule * most;
    if (result.reason == LimitReason::kMustShrink) return result;
    for (const Tenant& tenant : tenants_) {
      const bool own = &tenant == &tenants_[share.tenant];
      if (!own && tenant.reserve > most) most = tenant.reserve, result.beneficiary = tenant.name;
    }
    result.kept = kGranule * most;
    return result;
  }

  std::uint64_t capacity_;
  Bytes outside_, reserved_;  // as in the input
  bool guaranteed_;  ///< true if anything is guaranteed or reserved, so that the limits must fit into the capacity
  std::vector<Tenant> tenants_;
  std::vector<Share> shares_;
  std::uint64_t taken_ = 0;                 ///< granules taken by all accounts, plus the reserves of tenants
  std::map<std::size_t, LimitReason> cut_;  ///< accounts that must shrink, and why
};

}  // namespace

std::vector<Balanced> balance(const BalanceInput& input) { return Balance(input).run(); }

Message to_text(const Balanced& balanced) {
  switch (balanced.reason) {
    case LimitReason::kConfigured:
      return say<"limit.as_configured">();
    case LimitReason::kTenantLimit:
      return say<"limit.of_tenant">();
    case LimitReason::kMustShrink:
      return balanced.beneficiary.empty() ? say<"limit.gives_back_slices">()
                                          : say<"limit.gives_back">("tenants"_is(balanced.beneficiary));
    case LimitReason::kGuarantees:
      break;
  }
  if (balanced.held > balanced.kept_by_all) {
    const Message holder = balanced.holder.empty() ? Message(fixed<"limit.ungoverned">()) : Message(balanced.holder);
    return balanced.beneficiary.empty()
               ? say<"limit.held">("held_bytes"_is(balanced.held), "holder"_is(holder),
                                   "holder_bytes"_is(balanced.held_most))
               : say<"limit.held_and_kept">("held_bytes"_is(balanced.held), "holder"_is(holder),
                                            "holder_bytes"_is(balanced.held_most), "kept_bytes"_is(balanced.kept),
                                            "tenants"_is(balanced.beneficiary));
  }
  return balanced.beneficiary.empty() ? say<"limit.rest_is_taken">()
                                      : say<"limit.kept">("tenants"_is(balanced.beneficiary));
}

}  // namespace ration::node
