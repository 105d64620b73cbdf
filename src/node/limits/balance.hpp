// What each workload may hold at this moment, so that guarantees are real and idle room is used. Used by the daemon,
// which writes the result into the books, one device at a time, at every tick.
//
// Promises, each tested against random histories (tests/unit/decisions/balance_test.cpp):
// 1. A guaranteed byte is there. On a device with any guarantee, or of which anything is reserved, the effective limits
//    together, or what is held where that is more, never exceed the capacity, so nobody can take what is kept for
//    somebody else, between two ticks either. (Where Σ max(guarantee, used) was already above it, as when a guarantee
//    is new: see 4.)
// 2. Nobody gets less than its guarantee or more than its configured limit; a tenant's workloads together get no more
//    than the tenant's limit, and nobody of it gets what another one still holds above its lowered limit.
// 3. On a device where nothing is guaranteed or reserved everybody has what was configured, within the tenants' limits:
//    more than the device has, if so configured.
// 4. Where bytes that are guaranteed are held by others and a holder of the guarantee asks for them, those above their
//    guarantee have to give back: the lowest priority first, the idle first, then the largest burst.
//    Their limit falls below what they hold (`shrinking`), by no more than what is asked for.
// 5. Room above the guarantees goes to who wants more, by priority; the rest is spread evenly, so
//    that everybody can grow a little without waiting for the next tick.
// 6. Whole granules; the same input gives the same output; of more capacity nobody gets less. Limits that still hold
//    good stay as they are while nobody wants more and no more than a 32nd of the device is left to hand out, unless
//    that would give somebody all that was configured: books are not rewritten for every byte that is freed, and what
//    was handed to who asked is not taken back before somebody else asks.
// What it does not promise: that a program gives back. What a framework keeps stays `shrinking`, and is shown so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace ration::node {

/// One workload on one device.
struct BalanceAccount {
  std::string id, tenant;
  Bytes limit = kUnlimited;  ///< as configured
  Bytes guarantee;           ///< its own; at most its limit
  Bytes used;
  Bytes wants;  ///< what it was denied since the last tick, or would soon be denied; 0: it has enough
  int priority = 0;
  bool idle = false;               ///< gives back before those that are busy
  std::optional<Bytes> effective;  ///< what holds now; absent: not set yet
  Bytes most{};  ///< above `limit`, where that is its part of a limit for several: all that they leave of it
};

/// A tenant's own numbers on that device, over all its workloads. Tenants that are not named have none.
struct BalanceTenant {
  std::string name;
  Bytes limit = kUnlimited;
  Bytes guarantee;  ///< covers its workloads' own; what they cannot use stays kept for the tenant's next workload
};

struct BalanceInput {
  Bytes capacity;  ///< total less what is reserved, less what is not governed
  std::vector<BalanceAccount> accounts;
  std::vector<BalanceTenant> tenants;
  Bytes reserved = Bytes{0};  ///< for nobody of the accounts: kept free, and slices in which nothing runs
};

enum class LimitReason {
  kConfigured,   ///< it is what was asked for
  kGuarantees,   ///< the rest of the device is kept for, or divided with, others
  kGivingBack,   ///< it holds bytes that were guaranteed to `because_of`, which asks for them
  kTenantLimit,  ///< its tenant's limit
};

struct Balanced {
  std::string id;
  Bytes effective;
  Bytes reach;      ///< what `effective` would be if this account alone asked, and for all of its limit
  Bytes guarantee;  ///< its own and its part of the tenant's
  LimitReason reason = LimitReason::kConfigured;
  std::string because_of;  ///< the account with the largest unused guarantee; empty: there is none
  bool shrinking = false;  ///< it holds more than it may
};

/// One result an account, in the order of the input. Guarantees that cannot all be kept (more than the capacity, more
/// than the tenant's limit) are the caller's mistake; they are handed out all the same, and promises 1 and 2 are off.
[[nodiscard]] std::vector<Balanced> balance(const BalanceInput& input);

/// Why the limit is not the configured one, for people: `kept for nlp`.
[[nodiscard]] std::string to_text(const Balanced& balanced);

}  // namespace ration::node
