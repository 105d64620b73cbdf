#include "node/limits/limit_room.hpp"

#include <algorithm>
#include <utility>

#include "admission/promises.hpp"

namespace ration::node {
namespace {

/// As `ration set` takes it.
std::string holder_of(const BalanceAccount& account) { return account.id.substr(account.id.find('/') + 1); }

/// Who keeps the most that is not in use: an account's guarantee, or a tenant's.
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

/// Names what stands in the way of `needed` bytes for that account: the policy that sets its limit, its tenant's limit
/// if that alone does, or a promise without which it would be granted more.
void add_obstacle(admission::LimitRoom& room, const BalanceInput& input, std::size_t index, Bytes needed,
                  const std::string& policy) {
  if (input.accounts[index].limit < needed) {
    room.policy = policy;
    return;
  }
  BalanceInput without = input;
  for (BalanceTenant& tenant : without.tenants) {
    if (tenant.name != input.accounts[index].tenant || tenant.limit >= kUnlimited) continue;
    const Bytes limit = std::exchange(tenant.limit, kUnlimited);
    if (balance(without)[index].effective < needed) continue;
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
  if (balance(without)[index].effective > balance(input)[index].effective) room.promise = promise;
}

/// Where nobody balances limits: what is free and not kept for others.
admission::LimitRoom room_beside_guarantees(const NodeState& state, const Workload& workload, std::uint32_t account,
                                            const machine::Device& device) {
  admission::LimitRoom room{{}, {}, device.index, workload.book.accounts.size() > 1};
  admission::Promises others;
  for (const AccountView& other : state.snapshot.accounts) {
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

std::optional<admission::LimitRoom> room_for(const NodeState& state, const Workload& workload, std::uint32_t account,
                                             Bytes needed) {
  if (!state.machine || account >= workload.book.accounts.size()) return std::nullopt;
  for (const machine::Device& device : state.machine->devices) {
    const auto latest = state.balanced.find(device.uuid);
    if (device.bytes != workload.book.accounts[account].device) continue;
    if (!state.options.balances) return room_beside_guarantees(state, workload, account, device);
    if (latest == state.balanced.end()) continue;
    const auto& places = latest->second.places;
    const auto place = std::find(places.begin(), places.end(), std::pair(workload.path, account));
    if (place == places.end()) return std::nullopt;
    const auto index = static_cast<std::size_t>(place - places.begin());
    BalanceInput input = latest->second.input;
    BalanceAccount& mine = input.accounts[index];
    mine.used = workload.used[account];           // by now: the balance is of the tick before
    if (latest->second.because[index].empty()) {  // else the policy's limit stays, whatever is configured
      mine.limit = device.total;
      for (const admission::Slice& slice : state.slices)
        if (slice.name == workload.book.slice && slice.uuid == device.uuid) mine.limit = slice.size;
    }
    mine.wants = std::max(needed, mine.used + kGranule) - mine.used;
    const Bytes enough = balance(input)[index].effective;
    admission::LimitRoom room{{}, {}, device.index, workload.book.accounts.size() > 1};
    if (enough < needed) add_obstacle(room, input, index, needed, latest->second.because[index]);
    mine.wants = device.total - std::min(device.total, mine.used);  // as much as there is, for headroom
    const Bytes most = std::max(enough, balance(input)[index].effective);
    room.grantable = std::min(most, mine.used + device.room());
    return room;
  }
  return std::nullopt;
}

}  // namespace ration::node
