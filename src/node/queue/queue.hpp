// Who may start when: the queue of `ration run --wait` and of POST /leases. Used by the daemon, which tells it the time
// and what the devices have, and starts whom it names.
//
// Promises, each tested in simulated time (tests/unit/decisions/queue_test.cpp):
// 1. Never over capacity: what a step grants fits beside what is promised and what other leases hold.
// 2. The order. A request is due when it was submitted, or kTenantStep after the waiting request of the same tenant and
//    priority before it, whichever is later; each point of priority counts as kPriorityStep of waiting. The earliest
//    rank, due - priority * kPriorityStep, goes first. Ranks do not change while time passes, so ageing is built in: a
//    request with p more points overtakes those that came up to p minutes before it, and nobody else.
//    Of whom it is not sure that it wants its place is due kUnsureStep later, and pushes nobody back.
// 3. The first in that order that has no room is the head. Somebody behind it may start only if that cannot delay the
//    head, whenever what runs ends: it is gone before the head can possibly start, or the head has room beside it (EASY
//    backfilling, with bounds in place of times that people type). A program of unknown length may stay for ever, and
//    whatever runs longer than ever before may end at any moment: nobody passes on its account any more. Whoever would
//    not fit even if all leases ended is not a head: keeping devices empty would not help it.
// 4. So nothing starves while what runs comes to an end: the head starts, and everybody becomes head.
// 5. A lease that nobody takes up within kTakeUpGrace goes back.
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
inline constexpr std::uint64_t kUnsureStep = 10 * kSecond;
inline constexpr std::uint64_t kTakeUpGrace = 60 * kSecond;
inline constexpr int kHighestPriority = 1000;  ///< larger numbers, and below the negative, are cut to it
inline constexpr std::size_t kWaitsKept = 200, kFewestWaits = 3;

struct LeaseRequest {
  std::string id, tenant;
  Bytes bytes, guarantee;  ///< the larger of the two, in whole granules, is needed on each device
  std::vector<int> gpus;   ///< empty: any one device (`auto`); else all of these together
  int priority = 0;
  std::uint64_t submitted_ns = 0;
  std::optional<std::uint64_t> deadline_ns;  ///< `--wait=T`: leaves the queue then
  bool sure = true;                          ///< that it wants its place
  std::optional<Bytes> held;           ///< it ran before, and holds so much when it is back: that counts for its tenant
  std::optional<RunLengths> expected;  ///< how long it runs, where its earlier runs tell
};

struct Lease {
  LeaseRequest request;
  std::vector<int> gpus;  ///< where it was granted
  std::uint64_t granted_ns = 0;
  bool taken_up = false;
  struct Passed {
    std::string head;           ///< who stood before it, and is not delayed by it
    bool gone_in_time = false;  ///< it ends before that one can start; else there is room for both
  };
  std::optional<Passed> passed{};
};

/// What a step decided. `expired` left the queue at their deadline, `lapsed` were granted and never taken up.
struct StepResult {
  std::vector<Lease> granted;
  std::vector<LeaseRequest> expired;
  std::vector<Lease> lapsed;
};

/// Why a request waits. The holders of the device are the caller's to add.
struct WaitReason {
  enum class Kind {
    kNoRoom,    ///< `gpu` is the best there is, and has too little
    kBehind,    ///< it would fit on `gpu`, but `behind` might be delayed (empty: the next step will tell)
    kTooLarge,  ///< no device that it asked for can ever hold it as things are; `gpu` is the largest
    kNoDevice,  ///< there is no such device any more
    kPromised,  ///< `kept` of what is free on `gpu` is guaranteed to the tenants named by `behind`
    kTenant,    ///< its tenant may hold `capacity`, and has `free` of that left
  };
  Kind kind = Kind::kNoDevice;
  int gpu = 0;
  Bytes needed, free, capacity, kept;
  std::string behind;
  bool together = false;                      ///< it asked for several GPUs: `gpu` is the one that holds it up
  std::uint64_t head_in_ns = 0;               ///< the soonest that `behind` can start; 0: at any moment
  std::optional<std::uint64_t> may_run_ns{};  ///< how long this one may take; absent: not known
};
/// `best is GPU 1: 14.2 GiB of 47.5 GiB is neither held nor promised`.
[[nodiscard]] std::string to_text(const WaitReason& reason);
/// `ahead of q-5, which has room beside it`.
[[nodiscard]] std::string to_text(const Lease::Passed& passed);

/// How long others waited here; or why that is not known.
struct WaitEstimate {
  std::optional<std::uint64_t> median_ns;
  std::size_t count = 0;
  std::string unknown_because;
};

/// Not thread-safe: the daemon's one thread owns it.
class LeaseQueue {
 public:
  /// What the devices have by now, without the leases: those are known here. Who waits for its own tenant is in
  /// nobody's way.
  void update(Capacity capacity);
  [[nodiscard]] const Capacity& capacity() const { return capacity_; }

  /// Takes a request; `step` answers it. E1104: larger than any device it may use; E1105: asks for nothing;
  /// E1407: no such device; E1410: the id is in use.
  Result<void> submit(LeaseRequest request);
  /// False: nobody of that id waits. The tenant's next request takes over the place that became free.
  bool cancel(const std::string& id);
  /// The holder of the lease runs: from now on only `release` ends it.
  bool take_up(const std::string& id);
  bool release(const std::string& id);
  /// More is known by now of how long it runs, whether it waits or has its lease.
  void expect(const std::string& id, const std::optional<RunLengths>& expected);
  /// A lease of before a restart. It is believed, even where it no longer fits.
  void adopt(Lease lease);

  [[nodiscard]] StepResult step(std::uint64_t now_ns);

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// What those that wait asked for, on all of their devices together, by tenant.
  [[nodiscard]] std::map<std::string, Bytes> waiting_bytes() const;
  /// 1 is next; 0: nobody of that id waits.
  [[nodiscard]] std::size_t position(const std::string& id) const;
  /// Absent: nobody of that id waits.
  [[nodiscard]] std::optional<WaitReason> reason(const std::string& id) const;
  [[nodiscard]] WaitEstimate estimate() const;
  /// In the order in which they will go.
  [[nodiscard]] std::vector<LeaseRequest> requests() const;

 private:
  struct Waiting {
    LeaseRequest request;
    Bytes need;
    std::int64_t due = 0, rank = 0;
    bool tried = false;  ///< it was not granted at once, so it counts as a wait
  };

  [[nodiscard]] std::vector<std::vector<int>> places(const LeaseRequest& request) const;
  [[nodiscard]] bool tenant_allows(const Waiting& waiting) const;
  [[nodiscard]] bool could_hold(const Waiting& waiting, bool beside_promises) const;
  [[nodiscard]] bool could_use(const Waiting& waiting, int gpu, bool beside_promises) const;
  [[nodiscard]] std::uint64_t room_from(int gpu, const Waiting& waiting) const;
  [[nodiscard]] std::uint64_t soonest_start(const Waiting& waiting) const;
  [[nodiscard]] bool leaves_room(int gpu, const Waiting& head, const Lease& candidate) const;
  [[nodiscard]] std::optional<Lease::Passed> may_pass(const Waiting& head, const Lease& candidate) const;
  [[nodiscard]] std::optional<Lease> place(const Waiting& waiting, const Waiting* head) const;
  void insert(Waiting waiting);
  void grant(const Lease& lease, bool waited);
  void take(const Lease& lease);
  void give_back(const Lease& lease);

  Capacity capacity_;
  std::vector<Waiting> waiting_;  ///< by rank
  std::map<std::string, Lease> leases_;
  std::deque<std::uint64_t> waits_;
  std::uint64_t now_ = 0;  ///< of the last step
};

}  // namespace ration::node
