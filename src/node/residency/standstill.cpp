#include "node/residency/standstill.hpp"

#include <algorithm>
#include <tuple>

namespace ration::node {
namespace {

bool waits(const StandstillWorkload& workload) {
  return std::any_of(workload.places.begin(), workload.places.end(),
                     [](const StandstillPlace& place) { return place.waits_for != WaitsFor::kNothing; });
}

bool holds_the_same(const StandstillWorkload& one, const StandstillWorkload& other) {
  return std::equal(
      one.places.begin(), one.places.end(), other.places.begin(), other.places.end(),
      [](const StandstillPlace& a, const StandstillPlace& b) { return a.gpu == b.gpu && a.used == b.used; });
}

/// One workload on the device in question.
struct Candidate {
  const StandstillWorkload* workload = nullptr;
  const StandstillPlace* place = nullptr;
  bool waits = false;
  bool tries = false;  ///< it waited, and does not at this moment: it may have been served
  std::uint64_t since_ns = 0, unchanged_since_ns = 0;
};

bool is_served_before(const Candidate& one, const Candidate& other) {
  return std::make_tuple(-one.workload->priority, one.since_ns, one.workload->id) <
         std::make_tuple(-other.workload->priority, other.since_ns, other.workload->id);
}

/// Who has the least to lose: what is guaranteed is taken last, then whoever began to wait last goes first.
bool leaves_before(const Candidate& one, const Candidate& other) {
  const auto rank = [](const Candidate& each) {
    return std::make_tuple(each.workload->priority, each.place->used <= each.place->guarantee, ~each.since_ns,
                           each.place->used, each.workload->id);
  };
  return rank(one) < rank(other);
}

bool can_help(const Candidate& holder, const Candidate& waiter) {
  return holder.workload != waiter.workload && holder.place->used > Bytes{0} &&
         (waiter.place->waits_for == WaitsFor::kDevice || holder.place->pools.count(waiter.place->pool) != 0);
}

/// Who leaves so that `waiter` is served; null: nobody yet.
const Candidate* who_leaves_for(const Candidate& waiter, const std::vector<Candidate>& present, std::uint64_t now_ns) {
  const Candidate* leaver = nullptr;
  bool everybody_waits = true;
  std::uint64_t unchanged_since = waiter.unchanged_since_ns;
  for (const Candidate& holder : present) {
    if (!can_help(holder, waiter)) continue;
    everybody_waits = everybody_waits && holder.waits;
    if (!holder.waits) continue;
    unchanged_since = std::max(unchanged_since, holder.unchanged_since_ns);
    if (holder.workload->can_leave && (leaver == nullptr || leaves_before(holder, *leaver))) leaver = &holder;
  }
  const std::uint64_t patience = everybody_waits ? kStandstillPatience : kMixedPatience;
  if (leaver == nullptr || leaver->tries || now_ns - std::min(now_ns, unchanged_since) < patience) return nullptr;
  return leaver;
}

}  // namespace

// While it tries again a program is seen not to wait, and with what it wants entered: it takes several ticks in a row
// to be sure that it goes on.
void StandstillWatch::note(const StandstillWorkload& workload, std::uint64_t now_ns) {
  constexpr int kLooksInARow = 3;
  const auto known = waits_.find(workload.id);
  if (waits(workload)) {
    const bool is_new = known == waits_.end();
    Wait& wait = is_new ? waits_[workload.id] : known->second;
    if (is_new) wait.since_ns = now_ns;
    if (is_new || !holds_the_same(wait.seen, workload)) wait.unchanged_since_ns = now_ns;
    wait.seen = workload;
    wait.missed = 0;
  } else if (known != waits_.end() && ++known->second.missed >= kLooksInARow) {
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
    if (workload.moves)
      for (const StandstillPlace& place : workload.places) moving.insert(place.gpu);
    if (!workload.here) continue;
    note(workload, now_ns);
    const auto wait = waits_.find(workload.id);
    Candidate candidate{&workload, nullptr, wait != waits_.end(), false, 0, 0};
    if (candidate.waits) {
      candidate.tries = wait->second.missed > 0;
      candidate.workload = &wait->second.seen;
      candidate.since_ns = wait->second.since_ns;
      candidate.unchanged_since_ns = wait->second.unchanged_since_ns;
    }
    for (const StandstillPlace& place : candidate.workload->places) {
      candidate.place = &place;
      by_device[place.gpu].push_back(candidate);
    }
  }
  std::erase_if(waits_, [&](const auto& entry) { return present.count(entry.first) == 0; });

  std::vector<StandstillDecision> decisions;
  for (auto& [gpu, candidates] : by_device) {
    if (moving.count(gpu) != 0) continue;
    std::sort(candidates.begin(), candidates.end(), is_served_before);
    for (const Candidate& waiter : candidates) {
      if (waiter.place->waits_for != WaitsFor::kDevice && waiter.place->waits_for != WaitsFor::kPool) continue;
      const Candidate* leaver = who_leaves_for(waiter, candidates, now_ns);
      if (leaver == nullptr) continue;
      StandstillDecision decision{leaver->workload->id, waiter.workload->id, gpu, 0, leaver->place->used};
      for (const Candidate& each : candidates) decision.waiting += each.waits ? 1 : 0;
      decisions.push_back(std::move(decision));
      for (const StandstillPlace& place : leaver->workload->places) moving.insert(place.gpu);
      break;
    }
  }
  return decisions;
}

}  // namespace ration::node
