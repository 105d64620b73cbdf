// Computes the limits in force on one device, so that guarantees hold and idle memory is used. The daemon writes the
// result into the books at every tick.
//
// Promises, each tested with random histories (tests/unit/decisions/balance_test.cpp):
// 1. A guaranteed byte is available. On a device with a guarantee or a reservation, the sum of max(limit in force,
//    usage) never exceeds the capacity, so no workload can take another's guaranteed byte between two ticks. (If the
//    sum of max(guarantee, usage) already exceeds the capacity, for instance because a guarantee is new, promise 4
//    applies.)
// 2. No account gets less than its guarantee or more than its configured limit. A tenant's workloads together get at
//    most the tenant's limit, less the bytes that some of them hold above a lowered limit.
// 3. On a device without guarantees and reservations every account has its configured limit, within its tenant's limit;
//    the sum may exceed the device.
// 4. If other accounts hold guaranteed bytes that the holder of the guarantee demands, accounts above their own
//    guarantee are cut: those of the lowest priority first, among these the idle ones first, then those with the
//    largest excess. A cut limit falls below the account's usage (`shrinking`), by no more than the demand.
// 5. Room above the guarantees goes to demand, by priority; the rest is split evenly, so that every account can grow a
//    little before the next tick.
// 6. Results are whole granules and deterministic; more capacity gives no account less. While no account has demand,
//    valid limits stay as they are, unless more than a 32nd of the device is unassigned, or the unassigned rest
//    suffices to raise a limit to its configured value. So books are not rewritten for each freed byte, and an account
//    keeps the bytes that it demanded until another account demands them.
// Not promised: that a program frees memory. The account of a framework that keeps its memory stays `shrinking`, and is
// shown so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/message.hpp"

namespace ration::node {

/// One workload on one device.
struct BalanceAccount {
  std::string id, tenant;
  Bytes limit = kUnlimited;  ///< as configured
  Bytes guarantee;           ///< its own guarantee, at most `limit`
  Bytes used;
  Bytes demand;  ///< bytes denied since the last tick, or waited for; 0 if none
  int priority = 0;
  bool idle = false;              ///< true if it is cut before busy accounts
  std::optional<Bytes> in_force;  ///< limit in force; absent if there is none yet
  /// The limit that this account would have if it alone, of the accounts that share a limit, had demand; 0 if it shares
  /// no limit.
  Bytes limit_alone{};
};

/// A tenant's own limit and guarantee on the device, over all its workloads. Unlisted tenants have none.
struct BalanceTenant {
  std::string name;
  Bytes limit = kUnlimited;
  Bytes guarantee;  ///< covers its workloads' guarantees; the unused rest stays reserved for the tenant's next workload
};

struct BalanceInput {
  Bytes capacity;  ///< total less reservations and ungoverned use
  std::vector<BalanceAccount> accounts;
  std::vector<BalanceTenant> tenants;
  Bytes outside = Bytes{0};   ///< ungoverned use, which `capacity` leaves out
  Bytes reserved = Bytes{0};  ///< memory that is kept free, or is in slices without a workload
};

enum class LimitReason {
  kConfigured,   ///< as configured
  kGuarantees,   ///< the rest of the device is guaranteed to, or shared with, others
  kMustShrink,   ///< it holds bytes guaranteed to `beneficiary`, which demands them
  kTenantLimit,  ///< limit of its tenant
};

struct Balanced {
  std::string id;
  Bytes in_force;
  Bytes reach;      ///< value of `in_force` if this account alone demanded its whole limit
  Bytes guarantee;  ///< its own guarantee, plus its part of the tenant's
  LimitReason reason = LimitReason::kConfigured;
  /// The other account, or the other tenant, with the largest unused guarantee; empty if there is none.
  std::string beneficiary;
  Bytes kept;              ///< unused part of the beneficiary's guarantee
  Bytes kept_by_all;       ///< unused parts of all others' guarantees, and what is reserved
  Bytes held;              ///< bytes that other accounts and ungoverned processes hold
  std::string holder;      ///< the other account that holds the most; empty for ungoverned processes
  Bytes held_most;         ///< bytes of `holder`
  bool shrinking = false;  ///< usage exceeds `in_force`
};

/// Returns one result per account, in the order of the input. Guarantees above the capacity or the tenant's limit are
/// the caller's error: they are still assigned, but promises 1 and 2 do not hold then.
[[nodiscard]] std::vector<Balanced> balance(const BalanceInput& input);

/// Returns why the limit is not as configured: `the rest is kept for nlp` or, if others hold more than is kept,
/// who holds it.
[[nodiscard]] Message to_text(const Balanced& balanced);

}  // namespace ration::node
