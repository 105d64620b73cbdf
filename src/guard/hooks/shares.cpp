#include "guard/hooks/shares.hpp"

#include <cstdio>
#include <cstring>

#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {
namespace {

constexpr std::uint32_t kMaxShares = 64;
constexpr std::uint32_t kMaxAccounts = 16;
constexpr std::uint32_t kNoShare = ~std::uint32_t{0};  // this thread is in no share, not even in the common one

struct Amounts {
  std::atomic<std::uint64_t> used{0}, peak{0}, limit{kUnlimited.count()};
};

struct Share {
  char name[64] = {};
  Amounts of_account[kMaxAccounts];
};

struct Kept {
  std::uint64_t size = 0;
  std::uint32_t share = 0, account = 0;
};

Share shares[kMaxShares];  // numbered from 1; 0 is none
std::atomic<std::uint32_t> share_count{1};
SpinLock naming;
Table<Kept> kept;
thread_local std::uint32_t own_share = 0;
std::atomic<std::uint32_t> common_share{
    0};  // the share of threads that have entered none, such as a framework's helper threads

std::uint32_t share_now() noexcept {
  if (own_share == kNoShare) return 0;
  return own_share != 0 ? own_share : common_share.load(std::memory_order_relaxed);
}

Amounts* amounts_of(std::uint32_t share, std::uint32_t account) noexcept {
  const bool known = share > 0 && share < share_count.load(std::memory_order_acquire) && account < kMaxAccounts;
  return known ? &shares[share].of_account[account] : nullptr;
}

bool take(Amounts& amounts, std::uint64_t size) noexcept {
  std::uint64_t used = amounts.used.load(std::memory_order_relaxed);
  do {
    const std::uint64_t limit = amounts.limit.load(std::memory_order_relaxed);
    if (used > limit || size > limit - used) return false;
  } while (!amounts.used.compare_exchange_weak(used, used + size));
  std::uint64_t peak = amounts.peak.load(std::memory_order_relaxed);
  while (peak < used + size && !amounts.peak.compare_exchange_weak(peak, used + size)) {
  }
  return true;
}

}  // namespace

void ShareCharge::charge(std::uint32_t account, Bytes size) noexcept {
  const std::uint32_t share = share_now();
  Amounts* amounts = amounts_of(share, account);
  if (amounts == nullptr) return;
  account_ = account;
  size_ = size;
  fits_ = take(*amounts, size.count());
  share_ = fits_ ? share : 0;
}

cuda::CUresult ShareCharge::deny(const char* function) const noexcept {
  const std::uint32_t share = share_now();
  const Amounts* amounts = amounts_of(share, account_);
  if (amounts == nullptr) return cuda::CUDA_ERROR_OUT_OF_MEMORY;
  char where[128];  // the book stores as much of it as fits
  std::snprintf(where, sizeof where, "%s in %s", function, shares[share].name);
  guard::deny(account_, size_, book::DenialReason::kShare, where, book::kUnknownBytes, 0, {},
              book::Denials::Amount{Bytes{amounts->used.load()}, Bytes{amounts->limit.load()}});
  return cuda::CUDA_ERROR_OUT_OF_MEMORY;
}

void ShareCharge::give_back() noexcept {
  if (Amounts* amounts = amounts_of(share_, account_); amounts != nullptr) amounts->used.fetch_sub(size_.count());
}

void ShareCharge::enter(std::uint64_t key) noexcept {
  Kept stale;
  const bool replaced = kept.replace(key, {size_.count(), share_, account_}, stale);
  share_ = 0;
  if (!replaced) return;
  if (Amounts* amounts = amounts_of(stale.share, stale.account); amounts != nullptr)
    amounts->used.fetch_sub(stale.size);
}

void leave_share_now(std::uint64_t key) noexcept {
  Kept gone;
  if (!kept.take(key, gone)) return;
  if (Amounts* amounts = amounts_of(gone.share, gone.account); amounts != nullptr) amounts->used.fetch_sub(gone.size);
}

// Forgets the charges in a child, which holds nothing; the shares and their limits stay.
[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept {
  kept.abandon();
  naming.unlock();
  for (Share& share : shares)
    for (Amounts& amounts : share.of_account) amounts.used.store(0);
});

}  // namespace ration::guard

using namespace ration::guard;

#define RATION_EXPORT extern "C" [[gnu::visibility("default")]]

// Interface for libration. `account` is an index in the workload's book. Thread-safe.

/// Returns the number of the share with that name, and makes it if it is new. Returns 0 if there are too many shares or
/// the name is too long.
RATION_EXPORT std::uint32_t ration_shim_share(const char* name) {
  const SpinGuard guard(naming);
  const std::uint32_t count = share_count.load();
  for (std::uint32_t share = 1; share < count; ++share)
    if (std::strcmp(shares[share].name, name) == 0) return share;
  if (count == kMaxShares || std::strlen(name) >= sizeof shares[count].name) return 0;
  std::strcpy(shares[count].name, name);
  share_count.store(count + 1, std::memory_order_release);
  any_share.store(true);
  return count;
}

/// Puts the calling thread into a share: 0 means the common one, ~0 none at all. Returns the former value.
RATION_EXPORT std::uint32_t ration_shim_enter_share(std::uint32_t share) {
  const std::uint32_t before = own_share;
  own_share = share;
  return before;
}

/// Returns the calling thread's share, or 0 if it is in none.
RATION_EXPORT std::uint32_t ration_shim_current_share() { return share_now(); }

/// Sets the share of threads that have entered none. Returns the former share.
RATION_EXPORT std::uint32_t ration_shim_enter_common_share(std::uint32_t share) { return common_share.exchange(share); }

/// Sets a share's limit. Memory held beyond it stays; nothing more is charged until use is below it.
RATION_EXPORT void ration_shim_limit_share(std::uint32_t share, std::uint32_t account, std::uint64_t limit) {
  if (Amounts* amounts = amounts_of(share, account); amounts != nullptr) amounts->limit.store(limit);
}

/// Charges a block that libration hands out from memory that the driver gave libration earlier. Returns 0 if there is
/// no room.
RATION_EXPORT int ration_shim_charge_share(std::uint32_t share, std::uint32_t account, std::uint64_t size) {
  Amounts* amounts = amounts_of(share, account);
  return amounts == nullptr || take(*amounts, size) ? 1 : 0;
}
RATION_EXPORT void ration_shim_refund_share(std::uint32_t share, std::uint32_t account, std::uint64_t size) {
  if (Amounts* amounts = amounts_of(share, account); amounts != nullptr) amounts->used.fetch_sub(size);
}

/// Reads use, peak and limit, in bytes.
RATION_EXPORT void ration_shim_look_at_share(std::uint32_t share, std::uint32_t account, std::uint64_t (&out)[3]) {
  const Amounts* amounts = amounts_of(share, account);
  out[0] = amounts != nullptr ? amounts->used.load() : 0;
  out[1] = amounts != nullptr ? amounts->peak.load() : 0;
  out[2] = amounts != nullptr ? amounts->limit.load() : 0;
}
