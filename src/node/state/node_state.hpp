// Everything that a daemon knows of its node between two ticks: the books, the devices, what people were given, and the
// latest snapshot. Rules and commands work on it; what only one rule needs, that rule keeps.
// Promise: what belongs to one workload stands in its RunningWorkload, so that an ended one leaves nothing behind.
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
  std::string driver_folder;   ///< empty: the loader's own search
  std::string state_folder;    ///< where its numbers are kept; empty: nowhere
  std::string runtime_folder;  ///< where it is kept what was found out about the devices
  bool simulated = false;
  bool balances = true;  ///< false: for one command without a daemon, so nobody moves limits
  /// The devices at this moment; empty: as the driver in `driver_folder` says.
  std::function<Result<machine::Machine>()> query_devices;
  /// What moves the memory of programs; null: processes of this program's own.
  std::unique_ptr<CheckpointJobs> checkpoint_jobs;
  /// The folder of a process's cgroup; empty: as the kernel says.
  DriverLimits::CgroupOf cgroup_of;
  /// The slices of this node as they are by now.
  std::function<std::vector<admission::Slice>()> slices = [] { return std::vector<admission::Slice>{}; };
  /// Up to when a daemon before this one stored what each workload held; 0: there was none.
  history::TimeMs recorded_to = 0;
  /// Returns whether a daemon before this one recorded that event.
  std::function<bool(const Event& event)> recorded = [](const Event&) { return false; };
};

/// What the daemon remembers of a running workload beside its book and its limits.
struct RunningWorkload {
  struct Activity {
    std::vector<Bytes> used;
    std::uint64_t denials = 0, since_ns = 0;  ///< since then nothing was taken, given back or denied
  } activity;
  std::vector<Bytes> wanted;                          ///< by account: denied since the last tick, or waited for
  std::optional<const config::Policy*> policy;        ///< the first that fits; absent: not looked up yet
  std::optional<std::uint64_t> suspension_failed_ns;  ///< when it could not be moved away
  bool may_return = false;                            ///< there is room for it, as far as is promised
  bool unchecked = false;                             ///< its guarantee counts once it is known that it can be kept
  bool was_away = false;                              ///< of an unchecked one: it comes back from host memory
  bool held_by_driver = false;                        ///< its cgroup has the same limits in the driver
  struct Trim {
    Bytes used;  ///< before
    std::uint64_t since_ns = 0;
    std::string by;
  };
  std::optional<Trim> trim;  ///< it was asked to give back what it does not use
};

/// The latest balance of one device.
struct BalancedDevice {
  BalanceInput input;
  std::vector<std::pair<std::string, std::uint32_t>> places;  ///< path and account of each
  std::vector<std::string> because;                           ///< of each: the policy that sets its limit
};

/// Suspensions and requests to return since somebody asked last.
struct ResidencyChanges {
  std::vector<std::string> left;  ///< paths
  struct Asking {
    std::string path, because;
    bool sure = true;
  };
  std::vector<Asking> asking;
};

/// A run that ended: its key, when, and how.
struct EndedRun {
  history::RunKey run;
  history::TimeMs ended = 0;
  int exit_code = 0;
};

struct NodeState {
  NodeState(NodeOptions options, config::Configuration configuration);

  NodeOptions options;
  config::Configuration configuration;                 ///< its schedules: people's, then those of the files
  std::vector<config::Schedule> configured_schedules;  ///< those of the files
  FolderClaims claims;
  Registry registry;
  Limits limits;
  LimitMoves limit_moves;
  Tenants tenants;
  Schedules schedules;
  ContainerClaims container_claims;
  Suspension suspension;
  AllowedTenants allowed;

  // What the latest tick found.
  Result<machine::Machine> machine = fail("E1403", "the devices were not queried yet.");
  std::set<book::DeviceUuid> devices_seen;
  Changes changes;  ///< of the books
  std::vector<admission::Slice> slices;
  Snapshot snapshot;
  std::uint64_t now_ns = 0;          ///< as steady_time_ns() has it: every age and deadline is by this one
  std::uint64_t time_of_day_ns = 0;  ///< the same instant by the clock, which may jump: for what is shown and recorded
  std::uint64_t first_tick_ns = 0;   ///< time of day
  std::unordered_map<std::string, RunningWorkload> running;         ///< by path
  std::map<std::string, BalancedDevice> balanced;                   ///< by device
  std::map<std::string, std::deque<std::uint64_t>> recent_denials;  ///< by TENANT/NAME: when, of the last minute
  std::size_t queue_length = 0;                                     ///< commands that wait for memory

  // What is to be told, recorded and passed on.
  Events pending_events;                  ///< of before the next tick
  std::vector<Workload> ended_workloads;  ///< since the last sample
  std::vector<EndedRun> ended_runs;
  ResidencyChanges residency_changes;
  bool save_problem_told = false;      ///< that the limits cannot be kept
  std::vector<std::string> forgotten;  ///< paths of which the rules still have to forget what they keep

  /// What the clock would have said then.
  [[nodiscard]] std::uint64_t time_of_day_at(std::uint64_t steady_ns) const {
    return time_of_day_ns - (now_ns - steady_ns);
  }
  /// Ended, or another daemon's from now on.
  void forget(const Workload& workload);
};

[[nodiscard]] std::optional<int> gpu_of(const NodeState& state, const book::DeviceUuid& uuid);
/// The workload as an event names it, on its first device.
[[nodiscard]] About about(const NodeState& state, const Workload& workload);
/// On the device of that account.
[[nodiscard]] About about(const NodeState& state, const Workload& workload, const book::DeviceUuid& device);
/// The policy that holds for the workload; null: none.
[[nodiscard]] const config::Policy* policy_of(NodeState& state, const Workload& workload);
/// The claims of which a workload of that owner and with those labels has the device; none: it is in no claim. Only the
/// daemon's own user puts workloads into claims: its hooks do.
[[nodiscard]] std::vector<const ContainerClaim*> claims_of(const NodeState& state, std::uint32_t owner,
                                                           const std::string& labels, const std::string& uuid);
/// Together.
[[nodiscard]] Bytes sum(const std::vector<Bytes>& parts);
/// As the clock on the wall shows it.
[[nodiscard]] config::LocalTime local_time(std::uint64_t time_of_day_ns);
/// People's schedules before those of the files, in the configuration.
void apply_schedules(NodeState& state);

}  // namespace ration::node
