#include "node/residency/standstill.hpp"

#include <algorithm>
#include <tuple>

namespace ration::node {
namespace {

bool waits(const StandstillWorkload& workload) {
  return std::any_of(workload.accounts.begin(), workload.accounts.end(),
                     [](const StandstillAccount& account) { return account.waits_for != WaitsFor::kNothing; });
}

bool holds_the_same(const StandstillWorkload& one, const StandstillWorkload& other) {
  return std::equal(
      one.accounts.begin(), one.accounts.end(), other.accounts.begin(), other.accounts.end(),
      [](const StandstillAccount& a, const StandstillAccount& b) { return a.gpu == b.gpu && a.used == b.used; });
}

/// One workload on the device in question.
struct Candidate {
  const StandstillWorkload* workload = nullptr;
  const StandstillAccount* account = nullptr;
  bool waits = false;
  bool may_be_served = false;  ///< true if it waited before but not at this tick
  std::uint64_t since_ns = 0, unchanged_since_ns = 0;
};

bool is_served_before(const Candidate& one, const Candidate& other) {
  return std::make_tuple(-one.workload->priority, one.since_ns, one.workload->id) <
         std::make_tuple(-other.workload->priority, other.since_ns, other.workload->id);
}

/// Returns true if `one` is to be suspended before `other`: the lowest priority comes first, then usage beyond the
/// guarantee, then the latest waiter.
bool suspended_before(const Candidate& one, const Candidate& other) {
  const auto rank = [](const Candidate& each) {
    return std::make_tuple(each.workload->priority, each.account->used <= each.account->guarantee, ~each.since_ns,
                           each.account->used, each.workload->id);
  };
  return rank(one) < rank(other);
}

bool can_help(const Candidate& holder, const Candidate& waiter) {
  return holder.workload != waiter.workload && holder.account->used > Bytes{0} &&
         (waiter.account->waits_for == WaitsFor::kDevice ||
          holder.account->shared_limits.count(waiter.account->shared_limit) != 0);
}

/// Chooses the victim that is suspended for `waiter`; null if no workload is to be suspended yet.
const Candidate* victim_for(const Candidate& waiter, const std::vector<Candidate>& present, std::uint64_t now_ns) {
  const Candidate* victim = nullptr;
  bool all_wait = true;
  std::uint64_t unchanged_since = waiter.unchanged_since_ns;
  for (const Candidate& holder : present) {
    if (!can_help(holder, waiter)) continue;
    all_wait = all_wait && holder.waits;
    if (!holder.waits) continue;
    unchanged_since = std::max(unchanged_since, holder.unchanged_since_ns);
    if (holder.workload->can_suspend && (victim == nullptr || suspended_before(holder, *victim))) victim = &holder;
  }
  const std::uint64_t patience = all_wait ? kStandstillPatience : kMixedPatience;
  if (victim == nullptr || victim->may_be_served || now_ns - std::min(now_ns, unchanged_since) < patience)
    return nullptr;
  return victim;
}

}  // namespace

// Notes whether the workload waits. A waiting program that retries does not appear to wait at that moment. Therefore
// only several ticks in a row without a wait prove progress.
void StandstillWatch::note(const StandstillWorkload& workload, std::uint64_t now_ns) {
  constexpr int kTicksInARow = 3;
  const auto known = waits_.find(workload.id);
  if (waits(workload)) {
    const bool is_new = known == waits_.end();
    Wait& wait = is_new ? waits_[workload.id] : known->second;
    if (is_new) wait.since_ns = now_ns;
    if (is_new || !holds_the_same(wait.seen, workload)) wait.unchanged_since_ns = now_ns;
    wait.seen = workload;
    wait.missed = 0;
  } else if (known != waits_.end() && ++known->second.missed >= kTicksInARow) {
    waits_.erase(known);
  }
}

std::vector<StandstillDecision> StandstillWatch::decide(const std::vector<StandstillWorkload>& workloads,
                                                        std::uint64_t now_ns) {
  std::set<std::string> present;
  std::map<int, std::vector<Candidate>> by_device;
  std::set<int> moving;
  for (const StandstillWorkload& workload : workloads) {
    present.insert(workload.id);
    if (workload.moving)
      for (const StandstillAccount& account : workload.accounts) moving.insert(account.gpu);
    if (!workload.on_device) continue;
    note(workload, now_ns);
    const auto wait = waits_.find(workload.id);
    Candidate candidate{&workload, nullptr, wait != waits_.end(), false, 0, 0};
    if (candidate.waits) {
      candidate.may_be_served = wait->second.missed > 0;
      candidate.workload = &wait->second.seen;
      candidate.since_ns = wait->second.since_ns;
      candidate.unchanged_since_ns = wait->second.unchanged_since_ns;
    }
    for (const StandstillAccount& account : candidate.workload->accounts) {
      candidate.account = &account;
      by_device[account.gpu].push_back(candidate);
    }
  }
  std::erase_if(waits_, [&](const auto& entry) { return present.count(entry.first) == 0; });

  std::vector<StandstillDecision> decisions;
  for (auto& [gpu, candidates] : by_device) {
    if (moving.count(gpu) != 0) continue;
    std::sort(candidates.begin(), candidates.end(), is_served_before);
    for (const Candidate& waiter : candidates) {
      if (waiter.account->waits_for != WaitsFor::kDevice && waiter.account->waits_for != WaitsFor::kSharedLimit)
        continue;
      const Candidate* victim = victim_for(waiter, candidates, now_ns);
      if (victim == nullptr) continue;
      StandstillDecision decision{victim->workload->id, waiter.workload->id, gpu, 0, victim->account->used};
      for (const Candidate& each : candidates) decision.waiting += each.waits ? 1 : 0;
      decisions.push_back(std::move(decision));
      for (const StandstillAccount& account : victim->workload->accounts) moving.insert(account.gpu);
      break;
    }
  }
  return decisions;
}

}  // namespace ration::node
