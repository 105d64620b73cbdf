#include "node/limits/limit_room.hpp"

#include <algorithm>
#include <utility>

#include "admission/promises.hpp"

namespace ration::node {
namespace {

/// Returns the account's name in the form that `ration set` takes.
std::string holder_of(const BalanceAccount& account) { return account.id.substr(account.id.find('/') + 1); }

/// Finds the largest unused guarantee, of an account or of a tenant.
admission::Promise largest_promise(const BalanceInput& input, std::size_t except) {
  admission::Promise largest;
  const auto take = [&](admission::Promise promise) {
    if (promise.unused() > largest.unused()) largest = std::move(promise);
  };
  for (std::size_t i = 0; i < input.accounts.size(); ++i) {
    const BalanceAccount& account = input.accounts[i];
    if (i != except) take({holder_of(account), account.guarantee, account.used});
  }
  for (const BalanceTenant& tenant : input.tenants) {
    if (tenant.name == input.accounts[except].tenant) continue;
    Bytes used;
    for (const BalanceAccount& account : input.accounts)
      if (account.tenant == tenant.name) used += account.used;
    take({tenant.name, tenant.guarantee, used});
  }
  return largest;
}

/// Names the obstacle to `needed` bytes. The obstacle is the policy that sets the limit; otherwise the tenant's limit,
/// if the bytes would fit without that limit; otherwise a promise, if more bytes would fit without that promise.
void add_obstacle(admission::LimitRoom& room, const BalanceInput& input, std::size_t index, Bytes needed,
                  const Message& policy) {
  if (input.accounts[index].limit < needed) {
    room.policy = policy;
    room.of_claim = policy.id() == "limit.claim";
    return;
  }
  BalanceInput without = input;
  for (BalanceTenant& tenant : without.tenants) {
    if (tenant.name != input.accounts[index].tenant || tenant.limit >= kUnlimited) continue;
    const Bytes limit = std::exchange(tenant.limit, kUnlimited);
    if (balance(without)[index].in_force < needed) continue;
    room.tenant = {tenant.name, limit};
    return;
  }
  without = input;
  const admission::Promise promise = largest_promise(input, index);
  for (std::size_t i = 0; i < without.accounts.size(); ++i) {
    BalanceAccount& account = without.accounts[i];
    if (i != index && holder_of(account) == promise.name) account.guarantee = std::min(account.guarantee, account.used);
  }
  for (BalanceTenant& tenant : without.tenants)
    if (tenant.name == promise.name) tenant.guarantee = std::min(tenant.guarantee, promise.used);
  if (balance(without)[index].in_force > balance(input)[index].in_force) room.promise = promise;
}

/// Computes the room if no daemon runs: the memory that is free and not guaranteed to others.
admission::LimitRoom room_beside_guarantees(const Moment& moment, const Workload& workload, std::uint32_t account,
                                            const machine::Device& device) {
  admission::LimitRoom room{{}, {}, device.index, workload.book.accounts.size() > 1};
  admission::Promises others;
  for (const AccountView& other : moment.snapshot.accounts) {
    if (other.gpu != device.index || other.path == workload.path) continue;
    others.add_workload(other.tenant, other.guarantee, other.used);
    if (admission::Promise promise{other.workload, other.guarantee, other.used};
        promise.unused() > room.promise.unused())
      room.promise = std::move(promise);
  }
  room.grantable = workload.used[account] + device.room() - std::min(device.room(), others.unspent());
  return room;
}

}  // namespace

std::optional<admission::LimitRoom> room_for(const Moment& moment, const Balances* balances, const Workload& workload,
                                             std::uint32_t account, Bytes needed) {
  if (!moment.machine || account >= workload.book.accounts.size()) return std::nullopt;
  for (const machine::Device& device : moment.machine->devices) {
    if (device.bytes != workload.book.accounts[account].device) continue;
    if (balances == nullptr) return room_beside_guarantees(moment, workload, account, device);
    const auto latest = balances->find(device.uuid);
    if (latest == balances->end()) continue;
    const auto& keys = latest->second.keys;
    const auto key = std::find(keys.begin(), keys.end(), std::pair(workload.path, account));
    if (key == keys.end()) return std::nullopt;
    const auto index = static_cast<std::size_t>(key - keys.begin());
    BalanceInput input = latest->second.input;
    BalanceAccount& mine = input.accounts[index];
    mine.used = workload.used[account];           // the present usage, because the balance is one tick old
    if (latest->second.reasons[index].empty()) {  // a limit that a policy or claim sets stays
      mine.limit = device.total;
      for (const admission::Slice& slice : moment.slices)
        if (slice.name == workload.book.slice && slice.uuid == device.uuid) mine.limit = slice.size;
    }
    mine.demand = std::max(needed, mine.used + kGranule) - mine.used;
    const Bytes enough = balance(input)[index].in_force;
    admission::LimitRoom room{{}, {}, device.index, workload.book.accounts.size() > 1};
    if (enough < needed) add_obstacle(room, input, index, needed, latest->second.reasons[index]);
    mine.demand = device.total - std::min(device.total, mine.used);  // all of the rest, to find the highest limit
    const Bytes most = std::max(enough, balance(input)[index].in_force);
    room.grantable = std::min(most, mine.used + device.room());
    return room;
  }
  return std::nullopt;
}

}  // namespace ration::node
