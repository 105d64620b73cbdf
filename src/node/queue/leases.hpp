// Leases of commands: ties the queue of `ration run --wait` to the processes that wait, and to the workloads that they
// become.
// Promises: a dead waiter leaves the queue, and an ended workload frees its room; a granted lease fits beside
// everything that runs; a suspended workload queues for its return like a new one; places and leases survive a restart
// of the daemon.
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "node/events/event_text.hpp"
#include "node/promises/promises.hpp"
#include "node/queue/queue.hpp"
#include "node/queue/wait_histogram.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

struct LeaseSubmission {
  std::string tenant, user, command, gpu;  ///< `gpu` is `auto`, an index, or several: `0,1`
  std::string name;  ///< name of the future workload, without the number that an unnamed workload gets
  std::uint32_t owner = 0;
  ProcessIdentity waiter;  ///< process that waits; the lease leaves the queue when it dies
  Bytes bytes, guarantee;
  int priority = 0;
  std::optional<std::uint64_t> wait_ns;  ///< longest wait; absent if unlimited
  bool limit_is_scheduled = false;       ///< true if the tenant's limit may rise at another hour
  std::string key;                       ///< idempotency key of the client; empty if it sent none
};

enum class LeaseState {
  kWaiting,
  kGranted,    ///< its workload has not started yet
  kRunning,    ///< its workload runs
  kSuspended,  ///< its workload is suspended and not resuming
  kOver,       ///< its wait timed out, or its workload did not start in time
};

/// A holder of memory on a device. Others cannot have the `taken` bytes: the size of the holder's lease or, without a
/// lease, the larger of its guarantee and its usage.
struct Occupant {
  std::string who;
  Bytes taken;
  std::optional<Bytes> used;  ///< absent for memory that is only promised
};

/// A lease at this moment.
struct LeaseView {
  std::string id;
  LeaseSubmission submission;
  std::uint64_t submitted_ns = 0;  ///< time by the wall clock
  LeaseState state = LeaseState::kWaiting;
  std::optional<std::vector<int>> gpus{};  ///< GPUs on which it was granted
  Message reason{};                        ///< what it waits for, or which lease it overtook; empty if neither applies
  std::optional<std::vector<Occupant>> taken_by{};  ///< occupants of the device that it waits for
  std::size_t position = 0, of = 0;                 ///< place in the queue (0 if not in it), and length of the queue
  std::optional<WaitEstimate> estimate{};           ///< usual wait; absent unless it waits
};

struct CancelledLease {
  std::string id, by;
  std::uint32_t owner = 0;
};

/// Returns what events tell of a lease.
[[nodiscard]] QueuedFacts facts_of(const std::string& id, const LeaseSubmission& submission);

class Leases {
 public:
  /// Reads the leases saved in `file`; an empty path saves nothing. A damaged file counts as absent; commands then
  /// submit again.
  explicit Leases(std::string file = "");
  /// Returns a report of a damaged file; empty if it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

  /// The most leases of one user, waiting and granted.
  static constexpr std::size_t kMaxPerUser = 256;

  /// Submits a request and returns its id, `q-5`. Idempotent per waiter and key, so that a client without an answer may
  /// retry. Fails with E1104, E1105 or E1407, and with E1528 if the user has too many leases.
  [[nodiscard]] Result<std::string> submit(const LeaseSubmission& submission, std::uint64_t now_ns);
  /// Returns true if the waiter submitted the same request before and its lease still exists.
  [[nodiscard]] bool knows(const LeaseSubmission& submission) const { return !id_of(submission).empty(); }
  /// Removes a lease. Returns false if there is none with that id, or if it belongs to a user other than `user`, which
  /// is absent for an operator. `by` is shown to the waiter.
  bool cancel(const std::string& id, std::optional<std::uint32_t> user, const std::string& by = "");
  /// Returns a recently cancelled lease; null if unknown.
  [[nodiscard]] const CancelledLease* cancelled(const std::string& id) const;
  /// Records that the workload with the book at `path` runs under the lease. Returns false if the lease is not granted,
  /// or belongs to another user.
  bool mark_running(const std::string& id, const std::string& path, std::uint32_t user);

  /// Returns the bytes that this granted lease of the user promises to its workload on the device, whether the workload
  /// runs already or not; 0 if there is no such lease.
  [[nodiscard]] Bytes granted(const std::string& id, std::uint32_t user, int gpu) const;
  /// Returns the bytes that a lease promises on the device to the workload with the book at `path`; 0 if it started
  /// without a lease.
  [[nodiscard]] Bytes granted_to(const std::string& path, int gpu) const;

  /// Records a successful run, which improves the estimates for waiting and running leases of the same program.
  void learn(const Program& program, std::uint64_t length_ns);

  /// Frees the room that a workload held before it was suspended.
  void suspend(const std::string& path);
  /// Queues a suspended workload for its return to its devices. `reason` is shown in the queue. `confirmed` is false
  /// for a request that may be spurious. Such a request may be withdrawn and repeated.
  void requeue(const std::string& path, const Message& reason, const Snapshot& snapshot, std::uint64_t now_ns,
               bool confirmed = true);
  /// Returns the paths of the queued workloads that the queue has allowed to resume since the last call.
  [[nodiscard]] std::vector<std::string> take_resumable() { return std::exchange(resumable_, {}); }

  /// Updates the queue after a tick: devices, dead waiters, grants. `now_ns`, here and above, is a time of
  /// steady_time_ns(). `shares` has the limits and guarantees of tenants.
  Events step(const Snapshot& snapshot, std::uint64_t now_ns, const TenantShares& shares = {});

  [[nodiscard]] const LeaseQueue& queue() const { return queue_; }
  /// Returns the waits of all leases from request to grant; an immediate grant counts as a wait of almost 0 seconds.
  [[nodiscard]] const WaitHistogram& waits() const { return waits_; }
  /// Returns the lease; nothing for an unknown id.
  [[nodiscard]] std::optional<LeaseView> view(const std::string& id) const;
  /// Returns the waiting leases in the order in which they will be granted.
  [[nodiscard]] std::vector<LeaseView> waiting_views() const;

 private:
  struct Entry {
    LeaseSubmission submission;
    std::uint64_t submitted_ns = 0;
    std::optional<Lease> granted;
    std::string workload;               ///< path of its workload's book
    bool over = false;                  ///< true if its wait timed out, or its workload never started
    bool suspended = false;             ///< true if its workload is suspended and not resuming
    bool for_resume = false;            ///< true if it serves only its workload's resume, and ends with the resume
    Message resume_reason{};            ///< reason why its workload resumes; empty if it starts
    bool confirmed = true;              ///< false if the request to resume may be spurious
    std::optional<Bytes> held{};        ///< bytes that it will hold on each of its devices once it has resumed
    std::optional<std::int64_t> due{};  ///< its place in the queue of the previous daemon
  };

  /// Returns the bytes that a granted entry promises on the device to its workload.
  [[nodiscard]] static Bytes bytes_on(const Entry& entry, int gpu);
  /// Returns the id of an earlier identical request; empty if there is none.
  [[nodiscard]] std::string id_of(const LeaseSubmission& submission) const;
  [[nodiscard]] Result<LeaseRequest> request_of(const std::string& id, const Entry& entry) const;
  [[nodiscard]] static Entry entry_from(const nlohmann::json& row);
  [[nodiscard]] nlohmann::json entry_json(const std::string& id, const Entry& entry) const;
  void remove_from_queue(const std::string& id);
  void restore_running();
  void restore_waiting(std::uint64_t now_ns);
  [[nodiscard]] std::vector<Occupant> occupants_of(const DeviceView& device, const Snapshot& snapshot) const;
  void save();

  StateFile file_;
  std::uint64_t clock_ahead_ns_ = 0;       // wall clock minus steady time, modulo 2^64
  std::map<std::string, Entry> restored_;  ///< entries from the file, queued after the first query of the devices
  RunLengthTable run_lengths_;
  LeaseQueue queue_;
  std::map<int, std::vector<Occupant>> devices_;  // occupants at the last step
  std::deque<CancelledLease> cancelled_;          // oldest first
  std::vector<std::string> resumable_;
  std::map<std::string, Entry> entries_;
  WaitHistogram waits_;
  std::uint64_t last_id_ = 0;
};

}  // namespace ration::node
