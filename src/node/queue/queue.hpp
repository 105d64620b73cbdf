// The queue of `ration run --wait` and POST /leases: decides which request starts when. The daemon passes in the time
// and the capacity, and starts what is granted.
//
// Promises, each tested in simulated time (tests/unit/decisions/queue_test.cpp):
// 1. Capacity: a grant fits beside all promises and all other leases.
// 2. Order. A request is due at its submission. If an earlier request of the same tenant and priority waits, the later
//    one is due no sooner than kTenantStep after the earlier one is due. Each point of priority is worth kPriorityStep
//    of waiting: the request with the lowest rank, due - priority * kPriorityStep, goes first. A rank changes only if
//    an earlier request of the tenant is cancelled or expires. Ageing is thus built in: a request with p more points
//    overtakes only requests that came up to p minutes earlier. A request that may be spurious is due kUnconfirmedStep
//    later and delays no other.
// 3. The first request in that order without room is the head. A later request starts only if it cannot delay the head,
//    whenever running leases end: either it ends before the head can possibly start, or the head has room beside it
//    (EASY backfilling, with learnt bounds instead of users' estimates). A program of unknown length counts as one that
//    may run for ever, and may end at any moment. A run that is longer than every earlier run of its program also may
//    end at any moment. A request that would not fit even if all leases ended is never the head, since the end of
//    leases would not help it. The same holds within a tenant: a later request starts only if it cannot delay the first
//    request of its tenant that waits for the tenant's limit.
// 4. No starvation, provided that running leases end: the head starts, and every request becomes the head in time.
// 5. A lease that does not start within kStartGrace is revoked.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"
#include "node/queue/capacity.hpp"
#include "node/queue/run_lengths.hpp"

namespace ration::node {

inline constexpr std::uint64_t kPriorityStep = 60 * kSecond;
inline constexpr std::uint64_t kTenantStep = 60 * kSecond;
inline constexpr std::uint64_t kUnconfirmedStep = 10 * kSecond;
inline constexpr std::uint64_t kStartGrace = 60 * kSecond;
inline constexpr int kHighestPriority = 1000;  ///< priorities are clamped to this, and to its negative
inline constexpr std::size_t kWaitsKept = 200, kMinWaits = 3;

struct LeaseRequest {
  std::string id, tenant;
  Bytes bytes, guarantee;  ///< bytes on each device: the larger of the two, in whole granules
  std::vector<int> gpus;   ///< GPUs that it needs together; empty for any one GPU (`auto`)
  int priority = 0;
  std::uint64_t submitted_ns = 0;
  std::optional<std::uint64_t> deadline_ns;  ///< end of `--wait=T`, when it leaves the queue
  bool confirmed = true;                     ///< false for a resume that may be spurious; see kUnconfirmedStep
  std::optional<std::int64_t> due;           ///< place before a restart; absent to queue behind those that wait already
  std::optional<Bytes> held;                 ///< bytes that a resumed workload will hold, which count for its tenant
  std::optional<RunLengths> expected;        ///< lengths of earlier runs
};

struct Lease {
  LeaseRequest request;
  std::vector<int> gpus;  ///< GPUs on which it was granted
  std::uint64_t granted_ns = 0;
  bool running = false;
  struct Backfill {
    std::string head;               ///< the earlier request that it does not delay
    bool ends_before_head = false;  ///< true if it ends before that request can start; else there is room for both
  };
  std::optional<Backfill> backfill{};
};

/// The decisions of one step. `expired` left the queue at their deadline; `lapsed` were granted but never started.
struct StepResult {
  std::vector<Lease> granted;
  std::vector<LeaseRequest> expired;
  std::vector<Lease> lapsed;
};

/// The reason why a request waits. The caller adds the occupants of the device.
struct WaitReason {
  enum class Kind {
    kNoRoom,          ///< too little memory is free; `gpu` comes closest
    kBehind,          ///< it fits on `gpu`, but might delay `behind` (empty if the next step decides)
    kTooLarge,        ///< no device that it may use could hold it even if empty; `gpu` comes closest
    kNoDevice,        ///< a device that it needs no longer exists
    kPromised,        ///< `kept` of the free bytes on `gpu` are guaranteed to the tenants in `behind`
    kTenant,          ///< its tenant's limit is `capacity`, of which `free` is left
    kBehindInTenant,  ///< as kTenant, but `free` would suffice; it might delay `behind`, of the same tenant
  };
  Kind kind = Kind::kNoDevice;
  int gpu = 0;
  Bytes needed, free, capacity, kept;
  std::string behind;
  bool together = false;         ///< true if it needs several GPUs together: `gpu` is the one with the least room
  std::uint64_t head_in_ns = 0;  ///< time to the earliest possible start of `behind`; 0 if it may start at any moment
  std::optional<std::uint64_t> may_run_ns{};  ///< longest expected run; absent if unknown
};
/// Renders the reason: `not enough room; GPU 1 has the most: 14.2 GiB of 47.5 GiB are neither held nor promised`.
[[nodiscard]] Message to_text(const WaitReason& reason);
/// Renders the backfill: `ahead of q-5: there is room for both`.
[[nodiscard]] Message to_text(const Lease::Backfill& backfill);

/// The usual wait here, or the reason why it is unknown.
struct WaitEstimate {
  std::optional<std::uint64_t> median_ns;
  std::size_t count = 0;
  Message unknown_reason;
};

/// The queue of one node. Not thread-safe: the daemon's loop owns it.
class LeaseQueue {
 public:
  /// Sets the capacity of the devices. `capacity` contains no leases; the queue adds them itself. A request that waits
  /// for its own tenant's limit is never the head of the whole queue, only of its tenant's requests.
  void update(Capacity capacity);
  [[nodiscard]] const Capacity& capacity() const { return capacity_; }

  /// Returns E1104 if the request exceeds its tenant's limit, or what other tenants' guarantees leave, on every device
  /// that it may use, so that it would wait until somebody changes them. Does not count a limit that `is_scheduled`,
  /// since the limit may rise at another hour.
  [[nodiscard]] Result<void> check_promises(const LeaseRequest& request, bool is_scheduled) const;
  /// Adds a request; step() decides on it. Fails with E1104 if it is larger than any device that it may use, with E1105
  /// for 0 bytes, with E1407 for an unknown device, with E1410 if the id is in use.
  Result<void> submit(LeaseRequest request);
  /// Removes a waiting request, after which later requests of its tenant move up. Returns false if no waiting request
  /// has that id.
  bool cancel(const std::string& id);
  /// Marks the lease as running: from now on only release() ends it.
  bool mark_running(const std::string& id);
  bool release(const std::string& id);
  /// Updates the expected run length of a request or a lease.
  void expect(const std::string& id, const std::optional<RunLengths>& expected);
  /// Restores a lease from before a restart, even if it no longer fits.
  void restore(Lease lease);

  [[nodiscard]] StepResult step(std::uint64_t now_ns);

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// Returns the bytes that waiting requests need on all of their devices, by tenant.
  [[nodiscard]] std::map<std::string, Bytes> waiting_bytes() const;
  /// Returns the place of a waiting request, which LeaseRequest::due keeps over a restart; absent if it does not wait.
  [[nodiscard]] std::optional<std::int64_t> due(const std::string& id) const;
  /// Returns the position in the queue, from 1; 0 if the request does not wait.
  [[nodiscard]] std::size_t position(const std::string& id) const;
  /// Returns why the request waits; nothing if no waiting request has that id.
  [[nodiscard]] std::optional<WaitReason> reason(const std::string& id) const;
  [[nodiscard]] WaitEstimate estimate() const;
  /// Returns the waiting requests in the order in which they will be granted.
  [[nodiscard]] std::vector<LeaseRequest> requests() const;

 private:
  struct Waiting {
    LeaseRequest request;
    Bytes need;
    std::int64_t due = 0, rank = 0;
    bool tried = false;  ///< true if it was not granted at once, so that it counts as a wait
  };

  [[nodiscard]] std::vector<std::vector<int>> gpu_sets(const LeaseRequest& request) const;
  [[nodiscard]] bool tenant_allows(const Waiting& waiting) const;
  [[nodiscard]] bool could_hold(const Waiting& waiting, bool beside_promises) const;
  [[nodiscard]] bool could_use(const Waiting& waiting, int gpu, bool beside_promises) const;
  /// What a request waits for: `missing` bytes, and the leases that give bytes back, each with its earliest end.
  struct Shortage {
    std::int64_t missing = 0;
    std::vector<std::pair<std::uint64_t, Bytes>> ends;
  };
  /// The requests that later ones must not delay: of the whole queue, and of the candidate's tenant; null for none.
  struct Heads {
    const Waiting* of_queue = nullptr;
    const Waiting* of_tenant = nullptr;
  };

  [[nodiscard]] Shortage shortage_on(int gpu, const Waiting& waiting) const;
  [[nodiscard]] Shortage shortage_in_tenant(int gpu, const Waiting& waiting) const;
  [[nodiscard]] std::uint64_t earliest_room(const Shortage& shortage) const;
  [[nodiscard]] std::uint64_t earliest_start(const Waiting& waiting) const;
  [[nodiscard]] bool could_be_tenants_head(const Waiting& waiting) const;
  [[nodiscard]] const Waiting* tenants_head_before(const Waiting& waiting) const;
  [[nodiscard]] bool passes_in_tenant(const Waiting& head, const Lease& candidate) const;
  [[nodiscard]] std::optional<Lease::Backfill> backfill_beside(const Waiting& head, const Lease& candidate) const;
  [[nodiscard]] std::optional<Lease> possible_lease(const Waiting& waiting, const Heads& heads) const;
  void insert(Waiting waiting);
  void grant(const Lease& lease, bool waited);
  void charge(const Lease& lease);
  void refund(const Lease& lease);

  Capacity capacity_;
  std::vector<Waiting> waiting_;  ///< by rank
  std::map<std::string, Lease> leases_;
  std::deque<std::uint64_t> waits_;
  std::uint64_t now_ = 0;  ///< time of the last step
};

}  // namespace ration::node
