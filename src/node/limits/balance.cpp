#include "node/limits/balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace ration::node {
namespace {

/// One account while its share is worked out, in granules.
struct Share {
  const BalanceAccount* account = nullptr;
  std::size_t tenant = 0;
  std::uint64_t limit = 0, guarantee = 0, used = 0, wants = 0;
  std::uint64_t effective = 0;
  std::uint64_t most = 0;  ///< at least `limit`: what it could have if it asked alone
  std::uint64_t own = 0;   ///< of `guarantee`, what is not its part of the tenant's

  [[nodiscard]] std::uint64_t kept() const { return std::max(guarantee, std::min(used, limit)); }
  /// What all others lack by it, and what those of its tenant do, who get the tenant's guarantee if they ask.
  [[nodiscard]] std::uint64_t taken() const { return std::max(guarantee, used); }
  [[nodiscard]] std::uint64_t taken_inside() const { return std::max(own, used); }
  [[nodiscard]] std::uint64_t counted() const { return std::max(effective, used); }
};

struct Tenant {
  std::uint64_t limit = 0, guarantee = 0;
  std::uint64_t reserve = 0;                  ///< of its guarantee, what its workloads cannot use
  std::uint64_t taken = 0, taken_inside = 0;  ///< by its workloads together; the former with the reserve
};

/// More than all unlimited accounts together: an unlimited account counts with kUnlimited.
constexpr std::uint64_t kEndless = std::uint64_t{1} << 60;

std::uint64_t granules(Bytes bytes) { return round_up(std::min(bytes, kUnlimited), kGranule).count() >> 21; }
std::uint64_t whole_granules(Bytes bytes) { return round_down(bytes, kGranule).count() >> 21; }
std::uint64_t minus(std::uint64_t whole, std::uint64_t part) { return whole > part ? whole - part : 0; }

/// Hands out `amount` evenly: round after round, each gets a granule until it has its `room` or its group has its
/// `group_room`. Many equal rounds are done at once, so the outcome is that of single rounds: more to
/// hand out never leaves anybody with less.
class Handout {
 public:
  Handout(std::size_t count, std::vector<std::uint64_t> group_room)
      : given(count), group_room_(std::move(group_room)) {}

  std::uint64_t amount = 0;
  std::vector<std::uint64_t> given;

  struct Taker {
    std::size_t index, group;
    std::uint64_t room;
  };
  void among(std::vector<Taker> takers) {
    while (amount > 0) {
      std::erase_if(takers, [&](const Taker& taker) { return taker.room == 0 || group_room_[taker.group] == 0; });
      if (takers.empty()) return;
      round(takers);
    }
  }

 private:
  void round(std::vector<Taker>& takers) {
    std::map<std::size_t, std::uint64_t> by_group;
    for (const Taker& taker : takers) ++by_group[taker.group];
    std::uint64_t rounds = amount / takers.size();
    for (const Taker& taker : takers) rounds = std::min(rounds, taker.room);
    for (const auto& [group, members] : by_group) rounds = std::min(rounds, group_room_[group] / members);
    for (Taker& taker : takers) {
      const std::uint64_t got =
          std::min({std::max<std::uint64_t>(rounds, 1), amount, taker.room, group_room_[taker.group]});
      amount -= got;
      taker.room -= got;
      group_room_[taker.group] -= got;
      given[taker.index] += got;
    }
  }

  std::vector<std::uint64_t> group_room_;
};

class Balance {
 public:
  explicit Balance(const BalanceInput& input)
      : capacity_(whole_granules(input.capacity)), guaranteed_(input.reserved > Bytes{0}) {
    std::map<std::string, std::size_t> index;
    for (const BalanceTenant& tenant : input.tenants) {
      index[tenant.name] = tenants_.size();
      const std::uint64_t limit = tenant.limit >= kUnlimited ? kEndless : whole_granules(tenant.limit);
      tenants_.push_back({limit, granules(tenant.guarantee)});
    }
    for (const BalanceAccount& account : input.accounts) {
      const auto known = index.try_emplace(account.tenant, tenants_.size());
      if (known.second) tenants_.push_back({kEndless, 0});
      const std::uint64_t limit = whole_granules(account.limit);
      const std::uint64_t own = std::min(granules(account.guarantee), limit);
      shares_.push_back({&account, known.first->second, limit, own, granules(account.used), granules(account.wants), 0,
                         std::max(limit, whole_granules(account.most)), own});
    }
  }

  std::vector<Balanced> run() {
    hand_down_guarantees();
    for (Share& share : shares_) share.effective = share.kept();
    keep_tenants_within_limits();
    guaranteed_ =
        guaranteed_ ||
        std::any_of(shares_.begin(), shares_.end(), [](const Share& share) { return share.guarantee > 0; }) ||
        std::any_of(tenants_.begin(), tenants_.end(), [](const Tenant& tenant) { return tenant.reserve > 0; });
    if (guaranteed_) make_room_for_askers();
    hand_out_room();
    if (current_still_good()) {
      for (Share& share : shares_) share.effective = whole_granules(*share.account->effective);
    }
    for (Tenant& tenant : tenants_) tenant.taken = tenant.reserve;
    for (const Share& share : shares_) {
      tenants_[share.tenant].taken += share.taken();
      tenants_[share.tenant].taken_inside += share.taken_inside();
      taken_ += share.taken();
    }
    for (const Tenant& tenant : tenants_) taken_ += tenant.reserve;
    std::vector<Balanced> result;
    for (const Share& share : shares_) result.push_back(told(share));
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

  /// A tenant's guarantee goes to those of its workloads that hold memory, then to those that ask, then evenly.
  void hand_down_guarantees() {
    for (std::size_t t = 0; t < tenants_.size(); ++t) {
      const auto members = of_tenant(t);
      Handout handout(shares_.size(), {tenants_[t].guarantee});
      std::uint64_t own = 0;
      for (const std::size_t i : members) own += shares_[i].guarantee;
      handout.amount = minus(tenants_[t].guarantee, own);
      using Room = std::function<std::uint64_t(const Share&)>;
      const Room steps[] = {
          [](const Share& share) { return minus(std::min(share.used, share.limit), share.guarantee); },
          [](const Share& share) { return minus(std::min(share.used + share.wants, share.limit), share.guarantee); },
          [](const Share& share) { return share.limit - share.guarantee; }};
      for (const Room& room : steps) {
        std::vector<Handout::Taker> takers;
        for (const std::size_t i : members) takers.push_back({i, 0, minus(room(shares_[i]), handout.given[i])});
        handout.among(takers);
      }
      for (const std::size_t i : members) shares_[i].guarantee += handout.given[i];
      tenants_[t].reserve = handout.amount;
    }
  }

  /// Takes `amount` off the effective limits of `members`, never below a guarantee: see promise 4 for the order.
  void take(std::vector<std::size_t> members, std::uint64_t amount, LimitReason reason) {
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

  /// Bursts are cut to the same height: what they may keep is handed out again from nothing.
  std::uint64_t cut_down(const std::vector<std::size_t>& members, std::uint64_t amount, LimitReason reason) {
    std::uint64_t bursts = 0;
    std::vector<Handout::Taker> takers;
    for (const std::size_t i : members) {
      const std::uint64_t burst = minus(shares_[i].effective, shares_[i].guarantee);
      bursts += burst;
      takers.push_back({i, 0, burst});
    }
    Handout keep(shares_.size(), {bursts});
    keep.amount = minus(bursts, amount);
    keep.among(takers);
    for (const std::size_t i : members) {
      const std::uint64_t now = std::min(shares_[i].effective, shares_[i].guarantee + keep.given[i]);
      if (now < shares_[i].effective) cut_[i] = reason;
      shares_[i].effective = now;
    }
    return minus(amount, bursts);
  }

  void keep_tenants_within_limits() {
    for (std::size_t t = 0; t < tenants_.size(); ++t) {
      const auto members = of_tenant(t);
      std::uint64_t sum = 0;
      for (const std::size_t i : members) sum += shares_[i].effective;
      if (sum > tenants_[t].limit) take(members, sum - tenants_[t].limit, LimitReason::kTenantLimit);
    }
  }

  void make_room_for_askers() {
    std::uint64_t needed = 0;
    for (const Share& share : shares_) {
      const std::uint64_t unused = minus(share.guarantee, share.used);
      needed += share.used + (share.wants > 0 ? std::min(unused, share.wants) : 0);
    }
    if (needed <= capacity_) return;
    // What an earlier cut already asks for (a lowered limit, a tenant's limit) comes back by itself.
    std::uint64_t coming = 0;
    std::vector<std::size_t> everybody(shares_.size());
    std::iota(everybody.begin(), everybody.end(), std::size_t{0});
    for (const Share& share : shares_) coming += minus(share.used, share.effective);
    take(everybody, minus(needed - capacity_, coming), LimitReason::kGivingBack);
  }

  void hand_out_room() {
    Handout handout(shares_.size(), tenant_rooms());
    handout.amount = guaranteed_ ? spare() : kEndless;
    std::vector<int> priorities;
    for (const Share& share : shares_) {
      if (share.wants > 0) priorities.push_back(share.account->priority);
    }
    std::sort(priorities.rbegin(), priorities.rend());
    priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
    for (const int priority : priorities) {
      std::vector<Handout::Taker> takers;
      for (std::size_t i = 0; i < shares_.size(); ++i) {
        const Share& share = shares_[i];
        if (share.account->priority != priority || cut_.count(i) != 0) continue;
        const std::uint64_t wish = std::min(share.limit, share.used + share.wants);
        takers.push_back({i, share.tenant, minus(wish, share.effective)});
      }
      handout.among(takers);
    }
    std::vector<Handout::Taker> takers;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const Share& share = shares_[i];
      if (cut_.count(i) != 0) continue;
      takers.push_back({i, share.tenant, minus(share.limit, share.effective + handout.given[i])});
    }
    handout.among(takers);
    for (std::size_t i = 0; i < shares_.size(); ++i) shares_[i].effective += handout.given[i];
  }

  [[nodiscard]] std::uint64_t spare() const {
    std::uint64_t counted = 0;
    for (const Share& share : shares_) counted += share.counted();
    for (const Tenant& tenant : tenants_) counted += tenant.reserve;
    return minus(capacity_, counted);
  }

  /// Promise 6: nothing is wrong with the limits that hold now, nobody asks, and nothing much is left to hand out.
  [[nodiscard]] bool current_still_good() const {
    if (!cut_.empty()) return false;
    std::uint64_t counted = 0;
    std::vector<std::uint64_t> by_tenant(tenants_.size());
    for (const Share& share : shares_) {
      if (!share.account->effective || share.wants > 0) return false;
      const std::uint64_t now = whole_granules(*share.account->effective);
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
      const std::uint64_t missing = share.limit - whole_granules(*share.account->effective);
      return missing > 0 && room > 0 && (room >= missing || room > capacity_ / 32);
    });
  }

  /// Promise 5 for an account that asks alone: all that is neither held by others nor guaranteed to them.
  [[nodiscard]] std::uint64_t reach_of(const Share& share) const {
    if (share.effective >= share.most || cut_.count(static_cast<std::size_t>(&share - shares_.data())) != 0)
      return share.effective;
    const Tenant& tenant = tenants_[share.tenant];
    const std::uint64_t inside = tenant.taken_inside - share.taken_inside();
    const std::uint64_t room = guaranteed_ ? minus(capacity_, taken_ - tenant.taken + inside) : kEndless;
    return std::max(share.effective, std::min({share.most, room, minus(tenant.limit, inside)}));
  }

  [[nodiscard]] Balanced told(const Share& share) const {
    Balanced result;
    result.id = share.account->id;
    result.effective = kGranule * share.effective;
    result.reach = kGranule * reach_of(share);
    result.guarantee = kGranule * share.guarantee;
    result.shrinking = share.account->used > result.effective;
    if (share.effective >= share.limit) return result;
    const auto index = static_cast<std::size_t>(&share - shares_.data());
    if (const auto cut = cut_.find(index); cut != cut_.end())
      result.reason = cut->second;
    else
      result.reason = tenant_rooms()[share.tenant] == 0 ? LimitReason::kTenantLimit : LimitReason::kGuarantees;
    if (result.reason == LimitReason::kTenantLimit) return result;
    std::uint64_t most = 0;
    for (const Share& other : shares_) {
      const std::uint64_t unused = minus(other.guarantee, other.used);
      const bool asks = other.wants > 0 || result.reason != LimitReason::kGivingBack;
      if (&other != &share && asks && unused > most) most = unused, result.because_of = other.account->id;
    }
    return result;
  }

  std::uint64_t capacity_;
  bool guaranteed_;  ///< something is kept for somebody: limits together never exceed the capacity
  std::vector<Tenant> tenants_;
  std::vector<Share> shares_;
  std::uint64_t taken_ = 0;                 ///< by all together, reserves included
  std::map<std::size_t, LimitReason> cut_;  ///< those who have to give back, and why
};

}  // namespace

std::vector<Balanced> balance(const BalanceInput& input) { return Balance(input).run(); }

std::string to_text(const Balanced& balanced) {
  switch (balanced.reason) {
    case LimitReason::kConfigured:
      return "as configured";
    case LimitReason::kTenantLimit:
      return "its tenant's limit";
    case LimitReason::kGivingBack:
      return balanced.because_of.empty()
                 ? "has to give back what is sliced or kept free"
                 : fmt::format("has to give back what is guaranteed to {}", balanced.because_of);
    case LimitReason::kGuarantees:
      break;
  }
  return balanced.because_of.empty() ? "the rest is guaranteed to others, reserved, or in use"
                                     : fmt::format("kept for {}", balanced.because_of);
}

}  // namespace ration::node
