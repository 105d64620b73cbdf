#include "node/queue/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/command.hpp"
#include "base/say.hpp"
#include "base/units.hpp"

namespace ration::node {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

Bytes need_of(const LeaseRequest& request) { return round_up(std::max(request.bytes, request.guarantee), kGranule); }

/// Returns the earliest time at which the lease may end. That is now, if its length is unknown or it has run for longer
/// than every earlier run.
std::uint64_t earliest_end(const Lease& lease, std::uint64_t now) {
  if (!lease.request.expected) return now;
  const std::uint64_t runs = now - std::min(now, lease.granted_ns);
  const auto length = lease.request.expected->shortest_above(runs);
  return length ? lease.granted_ns + *length : now;
}

/// Returns the time by which the lease ends, unless it runs for longer than every earlier run.
std::uint64_t latest_end(const Lease& lease) {
  return lease.request.expected ? lease.granted_ns + lease.request.expected->at_most_ns : kNever;
}

bool uses(const std::vector<int>& gpus, int gpu) { return std::find(gpus.begin(), gpus.end(), gpu) != gpus.end(); }

Bytes counted_for_tenant(const LeaseRequest& request) { return request.held ? *request.held : need_of(request); }

}  // namespace

Message to_text(const WaitReason& reason) {
  const int gpu = reason.gpu;
  switch (reason.kind) {
    case WaitReason::Kind::kNoRoom:
      return reason.together
                 ? say<"lease.no_room_together">("gpu"_is(gpu), "free_bytes"_is(reason.free),
                                                 "whole_bytes"_is(reason.capacity))
                 : say<"lease.no_room">("gpu"_is(gpu), "free_bytes"_is(reason.free), "whole_bytes"_is(reason.capacity));
    case WaitReason::Kind::kBehind:
      if (reason.behind.empty()) return say<"lease.about_to_start">("gpu"_is(gpu));
      return say<"lease.behind">(
          "gpu"_is(gpu), "free_bytes"_is(reason.free), "lease"_is(reason.behind),
          "start"_is(reason.head_in_ns == 0
                         ? say<"lease.starts_any_moment">()
                         : say<"lease.starts_in">("start_seconds"_is(nanoseconds(reason.head_in_ns)))),
          "length"_is(reason.may_run_ns ? say<"lease.takes">("length_seconds"_is(nanoseconds(*reason.may_run_ns)))
                                        : say<"lease.takes_unknown">()));
    case WaitReason::Kind::kPromised:
      return say<"lease.promised">("gpu"_is(gpu), "free_bytes"_is(reason.free), "kept_bytes"_is(reason.kept),
                                   "tenants"_is(reason.behind));
    case WaitReason::Kind::kTooLarge:
      return say<"lease.too_large">("gpu"_is(gpu), "whole_bytes"_is(reason.capacity));
    case WaitReason::Kind::kBehindInTenant:
      return say<"lease.behind_in_tenant">("free_bytes"_is(reason.free), "limit_bytes"_is(reason.capacity),
                                           "gpu"_is(gpu), "lease"_is(reason.behind));
    case WaitReason::Kind::kTenant:
      return say<"lease.tenant_full">("free_bytes"_is(reason.free), "limit_bytes"_is(reason.capacity), "gpu"_is(gpu));
    case WaitReason::Kind::kNoDevice:
      break;
  }
  return say<"lease.device_gone">();
}

Message to_text(const Lease::Backfill& backfill) {
  return backfill.ends_before_head ? say<"lease.passed_in_time">("lease"_is(backfill.head))
                                   : say<"lease.passed_beside">("lease"_is(backfill.head));
}

void LeaseQueue::update(Capacity capacity) {
  capacity_ = std::move(capacity);
  for (const auto& [id, lease] : leases_) charge(lease);
}

void LeaseQueue::charge(const Lease& lease) {
  capacity_.take(lease.gpus, lease.request.tenant, need_of(lease.request), counted_for_tenant(lease.request));
}

Result<void> LeaseQueue::submit(LeaseRequest request) {
  if (leases_.count(request.id) != 0 || position(request.id) != 0) {
    return fail("E1410", fmt::format("lease {} exists already.", request.id), "Leave the id out.", 2);
  }
  for (const int gpu : request.gpus) {
    if (!capacity_.whole(gpu)) return fail("E1407", fmt::format("there is no GPU {}.", gpu), "ration ps", 3);
  }
  std::sort(request.gpus.begin(), request.gpus.end());
  request.gpus.erase(std::unique(request.gpus.begin(), request.gpus.end()), request.gpus.end());
  request.priority = std::clamp(request.priority, -kHighestPriority, kHighestPriority);
  Waiting waiting;
  waiting.need = need_of(request);
  waiting.due = static_cast<std::int64_t>(request.submitted_ns + (request.confirmed ? 0 : kUnconfirmedStep));
  waiting.request = std::move(request);
  if (waiting.need == Bytes{0})
    return fail("E1105", "a lease cannot be of 0 bytes.", "ration run --wait --limit 4GiB -- …", 2);
  std::vector<Bytes> sizes;
  for (const auto& gpus : gpu_sets(waiting.request)) {
    for (const int gpu : gpus) sizes.push_back(capacity_.whole(gpu).value_or(Bytes{0}));
  }
  std::sort(sizes.begin(), sizes.end());
  // If all GPUs are needed together, the smallest must be large enough; if any one will do, the largest must.
  const Bytes largest = sizes.empty() ? Bytes{0} : sizes.back();
  if (sizes.empty() || (waiting.request.gpus.empty() ? largest : sizes.front()) < waiting.need) {
    return fail("E1104",
                fmt::format("{} will never be free here: the requested GPUs have at most {}.",
                            format_size(waiting.need), format_size(largest)),
                "Ask for less, or for another --gpu.", 2);
  }
  for (const Waiting& other : waiting_) {
    if (other.request.confirmed && other.request.tenant == waiting.request.tenant &&
        other.request.priority == waiting.request.priority)
      waiting.due = std::max(waiting.due, other.due + static_cast<std::int64_t>(kTenantStep));
  }
  if (waiting.request.due) waiting.due = *waiting.request.due;
  insert(std::move(waiting));
  return {};
}

Result<void> LeaseQueue::check_promises(const LeaseRequest& request, bool is_scheduled) const {
  const Bytes need = need_of(request);
  const std::vector<int> gpus = request.gpus.empty() ? capacity_.gpus() : request.gpus;
  std::vector<Ceiling> ceilings;
  for (const int gpu : gpus)
    if (capacity_.whole(gpu)) ceilings.push_back(capacity_.ceiling(gpu, request.tenant, !is_scheduled));
  if (ceilings.size() < gpus.size() || ceilings.empty()) return {};  // submit() reports an unknown GPU
  const auto [least, most] = std::minmax_element(
      ceilings.begin(), ceilings.end(), [](const auto& one, const auto& two) { return one.bytes < two.bytes; });
  const Ceiling& deciding = request.gpus.empty() ? *most : *least;
  if (need <= deciding.bytes) return {};
  const Bytes whole = *capacity_.whole(deciding.gpu);
  if (need > whole) return {};  // submit() reports that the device is too small
  const bool by_limit = deciding.limit < need;
  const std::string others =
      fmt::format("{}", fmt::join(capacity_.others_guaranteed(deciding.gpu, request.tenant), ", "));
  return fail("E1104",
              by_limit
                  ? fmt::format("{} will never be free for tenant {}: this tenant may hold {} of GPU {}.",
                                format_size(need), request.tenant, format_size(deciding.limit), deciding.gpu)
                  : fmt::format("{} will never be free for tenant {}: {} of the {} of GPU {} are guaranteed to {}.",
                                format_size(need), request.tenant, format_size(deciding.for_others), format_size(whole),
                                deciding.gpu, others),
              fmt::format("Ask for {} at most, or: {}", exact_size(deciding.bytes),
                          by_limit ? command({"set", request.tenant, "--limit", "SIZE"})
                                   : command({"set", others.substr(0, others.find(',')), "--guarantee", "SIZE"})),
              2);
}

void LeaseQueue::insert(Waiting waiting) {
  waiting.rank = waiting.due - waiting.request.priority * static_cast<std::int64_t>(kPriorityStep);
  const auto behind = std::upper_bound(waiting_.begin(), waiting_.end(), waiting.rank,
                                       [](std::int64_t rank, const Waiting& other) { return rank < other.rank; });
  waiting_.insert(behind, std::move(waiting));
}

bool LeaseQueue::cancel(const std::string& id) {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& entry) { return entry.request.id == id; });
  if (found == waiting_.end()) return false;
  const Waiting gone = *found;
  waiting_.erase(found);
  std::vector<Waiting> later;
  std::int64_t place = gone.due;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    const bool follows = gone.request.confirmed && entry->request.confirmed &&
                         entry->request.tenant == gone.request.tenant &&
                         entry->request.priority == gone.request.priority && entry->due > gone.due;
    if (follows) later.push_back(*entry);
    entry = follows ? waiting_.erase(entry) : entry + 1;
  }
  for (Waiting& entry : later) {
    const std::int64_t next = entry.due;
    entry.due = std::max(static_cast<std::int64_t>(entry.request.submitted_ns), place);
    place = next;
    insert(std::move(entry));
  }
  return true;
}

bool LeaseQueue::mark_running(const std::string& id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return false;
  found->second.running = true;
  return true;
}

void LeaseQueue::refund(const Lease& lease) {
  capacity_.release(lease.gpus, lease.request.tenant, need_of(lease.request), counted_for_tenant(lease.request));
}

bool LeaseQueue::release(const std::string& id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return false;
  refund(found->second);
  leases_.erase(found);
  return true;
}

void LeaseQueue::expect(const std::string& id, const std::optional<RunLengths>& expected) {
  if (const auto lease = leases_.find(id); lease != leases_.end()) lease->second.request.expected = expected;
  for (Waiting& waiting : waiting_)
    if (waiting.request.id == id) waiting.request.expected = expected;
}

void LeaseQueue::restore(Lease lease) {
  release(lease.request.id);
  charge(lease);
  leases_[lease.request.id] = std::move(lease);
}

void LeaseQueue::grant(const Lease& lease, bool waited) {
  if (waited) waits_.push_back(lease.granted_ns - std::min(lease.granted_ns, lease.request.submitted_ns));
  if (waits_.size() > kWaitsKept) waits_.pop_front();
  restore(lease);
}

std::vector<std::vector<int>> LeaseQueue::gpu_sets(const LeaseRequest& request) const {
  if (!request.gpus.empty()) return {request.gpus};
  std::vector<std::vector<int>> each;
  for (const int gpu : capacity_.gpus()) each.push_back({gpu});
  return each;
}

bool LeaseQueue::tenant_allows(const Waiting& waiting) const {
  const auto all = gpu_sets(waiting.request);
  return std::any_of(all.begin(), all.end(), [&](const std::vector<int>& gpus) {
    return capacity_.tenant_room(waiting.request.tenant, gpus) >= counted_for_tenant(waiting.request);
  });
}

bool LeaseQueue::could_use(const Waiting& waiting, int gpu, bool beside_promises) const {
  return (waiting.request.gpus.empty() || uses(waiting.request.gpus, gpu)) &&
         capacity_.could_hold(gpu, waiting.need, waiting.request.tenant, beside_promises);
}

bool LeaseQueue::could_hold(const Waiting& waiting, bool beside_promises) const {
  const auto all = gpu_sets(waiting.request);
  return std::any_of(all.begin(), all.end(), [&](const std::vector<int>& gpus) {
    return std::all_of(gpus.begin(), gpus.end(), [&](int gpu) { return could_use(waiting, gpu, beside_promises); });
  });
}

LeaseQueue::Shortage LeaseQueue::shortage_on(int gpu, const Waiting& waiting) const {
  Shortage shortage{capacity_.missing_on(gpu, waiting.need, waiting.request.tenant), {}};
  for (const auto& [id, lease] : leases_)
    if (uses(lease.gpus, gpu)) shortage.ends.emplace_back(earliest_end(lease, now_), need_of(lease.request));
  return shortage;
}

LeaseQueue::Shortage LeaseQueue::shortage_in_tenant(int gpu, const Waiting& waiting) const {
  const std::string& tenant = waiting.request.tenant;
  const Bytes room = capacity_.tenant_room(tenant, {gpu});
  Shortage shortage{static_cast<std::int64_t>(counted_for_tenant(waiting.request).count()) -
                        static_cast<std::int64_t>(std::min(room, kUnlimited).count()),
                    {}};
  for (const auto& [id, lease] : leases_)
    if (lease.request.tenant == tenant && uses(lease.gpus, gpu))
      shortage.ends.emplace_back(earliest_end(lease, now_), counted_for_tenant(lease.request));
  return shortage;
}

/// Returns the earliest time at which nothing may be missing, if every lease ends as early as possible.
std::uint64_t LeaseQueue::earliest_room(const Shortage& shortage) const {
  std::vector<std::pair<std::uint64_t, Bytes>> ends = shortage.ends;
  std::sort(ends.begin(), ends.end());
  std::int64_t missing = shortage.missing;
  std::uint64_t from = now_;
  for (auto end = ends.begin(); missing > 0 && end != ends.end(); ++end) {
    from = end->first;
    missing -= static_cast<std::int64_t>(end->second.count());
  }
  return missing > 0 ? kNever : from;
}

std::uint64_t LeaseQueue::earliest_start(const Waiting& waiting) const {
  std::uint64_t best = kNever;
  for (const auto& gpus : gpu_sets(waiting.request)) {
    std::uint64_t together = now_;
    for (const int gpu : gpus)
      together = std::max(together, could_use(waiting, gpu, true) ? earliest_room(shortage_on(gpu, waiting)) : kNever);
    best = std::min(best, together);
  }
  return best;
}

namespace {

/// Returns true if a candidate of `size` bytes that runs until `end` cannot delay the head: whichever leases end during
/// the candidate's run, if they free enough for the head alone, they free enough for both.
bool leaves_room(std::int64_t missing, const std::vector<std::pair<std::uint64_t, Bytes>>& ends, Bytes size,
                 std::uint64_t end) {
  constexpr std::size_t kMaxSums = 256;  // sizes are round, so few sums differ; returns false if more do
  const std::int64_t with = missing + static_cast<std::int64_t>(size.count());
  const auto for_the_head_alone = [&](std::int64_t given_back) { return given_back >= missing && given_back < with; };
  std::set<std::int64_t> sums{0};
  if (for_the_head_alone(0)) return false;
  for (const auto& [earliest, given_back] : ends) {
    if (earliest >= end) continue;
    const auto bytes = static_cast<std::int64_t>(given_back.count());
    std::vector<std::int64_t> more;
    for (const std::int64_t sum : sums)
      if (sum + bytes < with) more.push_back(sum + bytes);
    if (std::any_of(more.begin(), more.end(), for_the_head_alone)) return false;
    sums.insert(more.begin(), more.end());
    if (sums.size() > kMaxSums) return false;
  }
  return true;
}

}  // namespace

/// Returns how the candidate leaves the head its room; nothing if it might delay the head.
std::optional<Lease::Backfill> LeaseQueue::backfill_beside(const Waiting& head, const Lease& candidate) const {
  if (latest_end(candidate) <= earliest_start(head)) return Lease::Backfill{head.request.id, true};
  const bool beside = std::all_of(candidate.gpus.begin(), candidate.gpus.end(), [&](int gpu) {
    if (!could_use(head, gpu, true)) return true;
    const Shortage shortage = shortage_on(gpu, head);
    return leaves_room(shortage.missing, shortage.ends, need_of(candidate.request), latest_end(candidate));
  });
  if (!beside) return std::nullopt;
  return Lease::Backfill{head.request.id, false};
}

/// Returns true if the request waits for its tenant's limit, and the end of the tenant's leases would make room for it.
bool LeaseQueue::could_be_tenants_head(const Waiting& waiting) const {
  if (tenant_allows(waiting)) return false;
  const auto all = gpu_sets(waiting.request);
  return std::any_of(all.begin(), all.end(), [&](const std::vector<int>& gpus) {
    return std::all_of(gpus.begin(), gpus.end(), [&](int gpu) {
      return capacity_.for_leases_of(waiting.request.tenant, gpu) >= counted_for_tenant(waiting.request);
    });
  });
}

/// Returns the first request of the tenant that waits for the tenant's limit, if that is not `waiting` or a later one.
const LeaseQueue::Waiting* LeaseQueue::tenants_head_before(const Waiting& waiting) const {
  for (const Waiting& each : waiting_) {
    if (&each == &waiting) break;
    if (each.request.tenant == waiting.request.tenant && could_be_tenants_head(each)) return &each;
  }
  return nullptr;
}

/// Returns true if the candidate cannot delay its tenant's head within the tenant's limit.
bool LeaseQueue::passes_in_tenant(const Waiting& head, const Lease& candidate) const {
  return std::all_of(candidate.gpus.begin(), candidate.gpus.end(), [&](int gpu) {
    if (!head.request.gpus.empty() && !uses(head.request.gpus, gpu)) return true;
    const Shortage shortage = shortage_in_tenant(gpu, head);
    return latest_end(candidate) <= earliest_room(shortage) ||
           leaves_room(shortage.missing, shortage.ends, counted_for_tenant(candidate.request), latest_end(candidate));
  });
}

/// Finds a lease that can start now without delaying the heads. If no other request waits, chooses the emptiest device,
/// which has the most computing power to spare. If others wait too, chooses the tightest fit, so that large rooms stay.
std::optional<Lease> LeaseQueue::possible_lease(const Waiting& waiting, const Heads& heads) const {
  std::optional<Lease> best;
  Bytes best_free;
  for (const auto& gpus : gpu_sets(waiting.request)) {
    if (!capacity_.has_room(gpus, waiting.need, waiting.request.tenant) ||
        capacity_.tenant_room(waiting.request.tenant, gpus) < counted_for_tenant(waiting.request))
      continue;
    Lease lease{waiting.request, gpus, now_, false};
    if (heads.of_tenant != nullptr && !passes_in_tenant(*heads.of_tenant, lease)) continue;
    if (heads.of_queue != nullptr && !(lease.backfill = backfill_beside(*heads.of_queue, lease))) continue;
    const Bytes free = capacity_.free_on(gpus.front());
    const bool alone = waiting_.size() == 1;
    if (!best || (alone ? free > best_free : free < best_free)) best = std::move(lease), best_free = free;
  }
  return best;
}

StepResult LeaseQueue::step(std::uint64_t now_ns) {
  StepResult result;
  now_ = now_ns;
  for (auto entry = leases_.begin(); entry != leases_.end();) {
    const Lease& lease = entry->second;
    if (lease.running || now_ns < lease.granted_ns + kStartGrace) {
      ++entry;
      continue;
    }
    refund(lease);
    result.lapsed.push_back(lease);
    entry = leases_.erase(entry);
  }
  for (const Waiting& waiting : waiting_) {
    if (waiting.request.deadline_ns && *waiting.request.deadline_ns <= now_ns)
      result.expired.push_back(waiting.request);
  }
  for (const LeaseRequest& request : result.expired) cancel(request.id);
  // Grants only reduce room, so one pass over the queue suffices.
  const Waiting* head = nullptr;
  std::map<std::string, const Waiting*> of_tenants;  // those that wait for their tenant's limit
  std::vector<std::string> started;
  for (Waiting& waiting : waiting_) {
    const auto of_tenant = of_tenants.find(waiting.request.tenant);
    if (const auto lease =
            possible_lease(waiting, {head, of_tenant == of_tenants.end() ? nullptr : of_tenant->second})) {
      grant(*lease, waiting.tried);
      result.granted.push_back(*lease);
      started.push_back(waiting.request.id);
      continue;
    }
    waiting.tried = true;
    if (could_be_tenants_head(waiting)) of_tenants.try_emplace(waiting.request.tenant, &waiting);
    if (head == nullptr && could_hold(waiting, true) && tenant_allows(waiting)) head = &waiting;
  }
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    return std::find(started.begin(), started.end(), waiting.request.id) != started.end();
  });
  return result;
}

std::optional<std::int64_t> LeaseQueue::due(const std::string& id) const {
  const std::size_t at = position(id);
  return at == 0 ? std::nullopt : std::optional(waiting_[at - 1].due);
}

std::size_t LeaseQueue::position(const std::string& id) const {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i].request.id == id) return i + 1;
  }
  return 0;
}

std::optional<WaitReason> LeaseQueue::reason(const std::string& id) const {
  const std::size_t at = position(id);
  if (at == 0) return std::nullopt;
  const Waiting& waiting = waiting_[at - 1];
  WaitReason reason;
  reason.needed = waiting.need;
  const bool any = waiting.request.gpus.empty();
  reason.together = waiting.request.gpus.size() > 1;
  const auto gone = [&](int gpu) { return !capacity_.whole(gpu); };
  if (std::any_of(waiting.request.gpus.begin(), waiting.request.gpus.end(), gone)) return reason;
  if (!tenant_allows(waiting)) {
    reason.kind = WaitReason::Kind::kTenant;
    for (const auto& gpus : gpu_sets(waiting.request)) {
      const auto limit = capacity_.tenant_limit(waiting.request.tenant, gpus.front());
      if (!limit || *limit < reason.capacity) continue;
      reason.gpu = gpus.front();
      reason.capacity = *limit;
      reason.free = capacity_.tenant_room(waiting.request.tenant, gpus);
    }
    return reason;
  }
  if (const Waiting* head = tenants_head_before(waiting);
      head != nullptr && possible_lease(waiting, {}) && !possible_lease(waiting, {nullptr, head})) {
    reason.kind = WaitReason::Kind::kBehindInTenant;
    reason.gpu = possible_lease(waiting, {})->gpus.front();
    reason.capacity = capacity_.tenant_limit(waiting.request.tenant, reason.gpu).value_or(kUnlimited);
    reason.free = capacity_.tenant_room(waiting.request.tenant, {reason.gpu});
    reason.behind = head->request.id;
    return reason;
  }
  const bool possible = could_hold(waiting, false);
  // If all GPUs are needed together, the fullest is the obstacle; if any one will do, the emptiest is the best chance.
  for (const int gpu : any ? capacity_.gpus() : waiting.request.gpus) {
    const Bytes whole = *capacity_.whole(gpu), free = capacity_.free_on(gpu);
    const bool better = possible ? free > reason.free : whole > reason.capacity;
    if (reason.kind != WaitReason::Kind::kNoDevice && better != any) continue;
    reason.gpu = gpu;
    reason.free = free;
    reason.capacity = whole;
    reason.kind = !possible                     ? WaitReason::Kind::kTooLarge
                  : reason.free >= waiting.need ? WaitReason::Kind::kBehind
                                                : WaitReason::Kind::kNoRoom;
  }
  const Bytes kept = capacity_.kept_for_others(reason.gpu, waiting.request.tenant);
  const bool behind_promises = reason.kind == WaitReason::Kind::kBehind &&
                               !capacity_.has_room({reason.gpu}, waiting.need, waiting.request.tenant);
  if (behind_promises || (reason.kind == WaitReason::Kind::kNoRoom && any && kept > Bytes{0})) {
    reason.kind = WaitReason::Kind::kPromised;
    reason.kept = kept;
    reason.behind = fmt::format("{}", fmt::join(capacity_.others_kept_for(reason.gpu, waiting.request.tenant), ", "));
  } else if (reason.kind == WaitReason::Kind::kBehind) {
    const auto head = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& entry) {
      return could_hold(entry, true) && tenant_allows(entry);
    });
    if (head != waiting_.end() && head->request.id != id) {
      reason.behind = head->request.id;
      if (const std::uint64_t start = earliest_start(*head); start != kNever) reason.head_in_ns = start - now_;
      if (waiting.request.expected) reason.may_run_ns = waiting.request.expected->at_most_ns;
    }
  }
  return reason;
}

WaitEstimate LeaseQueue::estimate() const {
  WaitEstimate estimate;
  estimate.count = waits_.size();
  if (waits_.size() < kMinWaits) {
    estimate.unknown_reason = say<"lease.few_waits">("count"_is(waits_.size()), "needed"_is(kMinWaits));
    return estimate;
  }
  std::vector<std::uint64_t> sorted(waits_.begin(), waits_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  estimate.median_ns = *middle;
  return estimate;
}

std::map<std::string, Bytes> LeaseQueue::waiting_bytes() const {
  std::map<std::string, Bytes> by_tenant;
  for (const Waiting& waiting : waiting_) {
    const LeaseRequest& request = waiting.request;
    const Bytes each = std::max(request.bytes, request.guarantee);
    by_tenant[request.tenant] += Bytes{each.count() * std::max<std::size_t>(request.gpus.size(), 1)};
  }
  return by_tenant;
}

std::vector<LeaseRequest> LeaseQueue::requests() const {
  std::vector<LeaseRequest> all;
  for (const Waiting& waiting : waiting_) all.push_back(waiting.request);
  return all;
}

}  // namespace ration::node
