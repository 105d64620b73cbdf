// The state of a node between two ticks: books, devices, limits, and the latest snapshot. Rules and
// requests share it; a rule keeps what only it needs.
// Promise: all that concerns one workload is in its RunningWorkload, so that an ended workload leaves nothing behind.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "admission/slices.hpp"
#include "config/configuration.hpp"
#include "config/match.hpp"
#include "node/books/folder_claims.hpp"
#include "node/claims/container_claims.hpp"
#include "node/events/event_text.hpp"
#include "node/limits/balance.hpp"
#include "node/limits/driver_limits.hpp"
#include "node/limits/limit_moves.hpp"
#include "node/limits/limits.hpp"
#include "node/residency/suspension.hpp"
#include "node/snapshot/snapshot.hpp"
#include "node/tenants/allowed_tenants.hpp"
#include "node/tenants/schedules.hpp"
#include "node/tenants/tenants.hpp"

namespace ration::node {

struct NodeOptions {
  std::string driver_folder;   ///< empty: the loader's search path
  std::string state_folder;    ///< where limits and other state are saved; empty: nowhere
  std::string runtime_folder;  ///< where device measurements are cached
  bool simulated = false;
  bool balances = true;  ///< false: one command without a daemon, so that no limit moves
  /// Returns the devices now; empty: queries the driver in `driver_folder`.
  std::function<Result<machine::Machine>()> query_devices;
  /// Moves the memory of programs; null: in child processes of this program.
  std::unique_ptr<CheckpointJobs> checkpoint_jobs;
  /// Returns the folder of a process's cgroup; empty: reads /proc.
  DriverLimits::CgroupOf cgroup_of;
  /// Returns the slices of this node now.
  std::function<std::vector<admission::Slice>()> slices = [] { return std::vector<admission::Slice>{}; };
  /// Time of the last sample that an earlier daemon recorded; 0: none.
  history::TimeMs recorded_to = 0;
  /// Returns true if an earlier daemon recorded that event.
  std::function<bool(const Event& event)> recorded = [](const Event&) { return false; };
};

/// A running workload: what the daemon remembers beyond its book and its limits.
struct RunningWorkload {
  struct Activity {
    std::vector<Bytes> used;
    std::uint64_t denials = 0, since_ns = 0;  ///< of the last allocation, free or denial
  } activity;
  std::vector<Bytes> demand;                          ///< by account: bytes denied since the last tick, or waited for
  std::optional<const config::Policy*> policy;        ///< the first that matches; absent: not looked up yet
  std::optional<std::uint64_t> suspension_failed_ns;  ///< time of the failed suspension
  bool may_resume = false;                            ///< enough unpromised memory is free for it
  bool guarantee_unchecked = false;                   ///< its guarantee counts only after check_promises()
  bool was_suspended = false;                         ///< with `guarantee_unchecked`: it resumed from host memory
  bool driver_enforced = false;                       ///< the driver enforces the limits on its cgroup too
  struct Trim {
    Bytes used;  ///< before the trim
    std::uint64_t since_ns = 0;
    std::string by;
  };
  std::optional<Trim> trim;  ///< the pending request to free unused memory
};

/// The latest balance of one device.
struct BalancedDevice {
  BalanceInput input;
  std::vector<std::pair<std::string, std::uint32_t>> keys;  ///< path and account, parallel to `input`
  std::vector<Message> reasons;  ///< parallel to `input`: the policy or claim that sets the limit, as text; empty: none
};

/// Suspensions and resume requests that the queue has yet to process.
struct ResidencyChanges {
  std::vector<std::string> suspended;  ///< paths of workloads that were suspended
  struct ResumeRequest {
    std::string path;
    Message reason;
    bool confirmed = true;
  };
  std::vector<ResumeRequest> resume_requests;
};

/// A run that ended.
struct EndedRun {
  history::RunKey run;
  history::TimeMs ended = 0;
  int exit_code = 0;
};

struct NodeState {
  NodeState(NodeOptions options, config::Configuration configuration);

  NodeOptions options;
  config::Configuration configuration;                 ///< its schedules: those of people, then those of the files
  std::vector<config::Schedule> configured_schedules;  ///< schedules of the files
  FolderClaims folder_claims;
  Registry registry;
  Limits limits;
  LimitMoves limit_moves;
  Tenants tenants;
  Schedules schedules;
  ContainerClaims container_claims;
  Suspension suspension;
  AllowedTenants allowed;

  // Findings of the latest tick.
  Result<machine::Machine> machine = fail("E1403", "the devices were not queried yet.");
  std::set<book::DeviceUuid> devices_seen;
  Changes changes;  ///< of the books, at the latest refresh
  std::vector<admission::Slice> slices;
  Snapshot snapshot;
  std::uint64_t now_ns = 0;          ///< by steady_time_ns(); every age and deadline uses it
  std::uint64_t time_of_day_ns = 0;  ///< the same instant by the wall clock, which may jump; for display and records
  std::uint64_t first_tick_ns = 0;   ///< by the wall clock
  std::unordered_map<std::string, RunningWorkload> running;         ///< by path
  std::map<std::string, BalancedDevice> balanced;                   ///< by device
  std::map<std::string, std::deque<std::uint64_t>> recent_denials;  ///< by TENANT/NAME: times of the last minute
  std::size_t queue_length = 0;                                     ///< commands that wait for memory

  // Results for the recorder, the queue and the rules.
  Events pending_events;                  ///< events from before the next tick
  std::vector<Workload> ended_workloads;  ///< since the last sample
  std::vector<EndedRun> ended_runs;
  ResidencyChanges residency_changes;
  bool save_failure_reported = false;  ///< a failure to save the limits was reported
  std::vector<std::string> forgotten;  ///< paths that the rules have yet to forget

  /// Converts a steady time into a time of day.
  [[nodiscard]] std::uint64_t time_of_day_at(std::uint64_t steady_ns) const {
    return time_of_day_ns - (now_ns - steady_ns);
  }
  /// Drops a workload that ended or is governed by another daemon now.
  void forget(const Workload& workload);
};

[[nodiscard]] std::optional<int> gpu_of(const NodeState& state, const book::DeviceUuid& uuid);
/// Names the workload in an event, with its first device.
[[nodiscard]] EventSubject event_subject(const NodeState& state, const Workload& workload);
/// Names the workload in an event, with the device of that account.
[[nodiscard]] EventSubject event_subject(const NodeState& state, const Workload& workload,
                                         const book::DeviceUuid& device);
/// Returns the policy for the workload; null: none.
[[nodiscard]] const config::Policy* policy_of(NodeState& state, const Workload& workload);
/// Returns the workload's claims on the device; empty: none. Only the hooks of the daemon's own user put workloads into
/// claims.
[[nodiscard]] std::vector<const ContainerClaim*> claims_of(const NodeState& state, std::uint32_t owner,
                                                           const std::string& labels, const std::string& uuid);
[[nodiscard]] Bytes sum(const std::vector<Bytes>& parts);
/// Converts to local time.
[[nodiscard]] config::LocalTime local_time(std::uint64_t time_of_day_ns);
/// Puts schedules of people before those of the files in the configuration.
void apply_schedules(NodeState& state);

}  // namespace ration::node
