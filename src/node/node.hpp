// One node: its books, its devices, what was promised, and what to do about it at every look. Used by the daemon, which
// adds the clock, the database and HTTP; and by tests, which add nothing.
// Promises: no look waits for a tenant; what a look decides is in the books when it returns; every decision and every
// observation that a person may ask about is an event.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.hpp"
#include "config/configuration.hpp"
#include "config/match.hpp"
#include "history/sample.hpp"
#include "node/decisions/balance.hpp"
#include "node/decisions/idle.hpp"
#include "node/decisions/limit_moves.hpp"
#include "node/decisions/settled.hpp"
#include "node/decisions/standstill.hpp"
#include "node/driver_limits.hpp"
#include "node/folder_claims.hpp"
#include "node/forecast.hpp"
#include "node/leases.hpp"
#include "node/limit_changed.hpp"
#include "node/limits.hpp"
#include "node/schedules.hpp"
#include "node/snapshot.hpp"
#include "node/suspension.hpp"
#include "node/tenants.hpp"
#include "policy/denials.hpp"
#include "policy/slices.hpp"

namespace ration::node {

struct NodeOptions {
  std::string driver_folder;   ///< empty: the loader's own search
  std::string state_folder;    ///< where its numbers are kept; empty: nowhere
  std::string runtime_folder;  ///< where it is kept what was found out about the devices
  bool simulated = false;
  /// What moves the memory of programs; null: processes of this program's own.
  std::unique_ptr<CheckpointJobs> checkpoint_jobs;
  /// The folder of a process's cgroup; empty: as the kernel says.
  DriverLimits::CgroupOf cgroup_of;
  /// The slices of this node as they are by now.
  std::function<std::vector<policy::Slice>()> slices = [] { return std::vector<policy::Slice>{}; };
  /// Whether an event of that denial, at that time, was recorded before a restart.
  std::function<bool(const std::string& denial, history::TimeMs time)> recorded = [](const std::string&,
                                                                                     history::TimeMs) { return false; };
};

/// Who wants something changed.
struct Caller {
  std::string name;  ///< of the user, for the record
  std::optional<std::uint32_t> user;
  bool is_operator = false;
};

struct LimitRequest {
  std::string workload, limit, guarantee;         ///< sizes as typed; empty: stays
  std::string gpu;                                ///< empty: on every device it has
  std::optional<std::uint64_t> expected_changes;  ///< If-Match; E1503 where somebody was faster
  bool dry_run = false;
};

/// A schedule as it is shown.
struct ScheduleRow {
  std::string name;  ///< empty: of the configuration, where they have none
  std::string when, days;
  std::map<std::string, std::string> set;  ///< limits of tenants
  std::string from;                        ///< who set it, or where it is written
  std::string rests;                       ///< why it does not count at all; empty: it does
  bool holds = false;                      ///< at this moment
};

/// As the clock on the wall shows it.
[[nodiscard]] config::LocalTime local_time(std::uint64_t now_ns);

class Node {
 public:
  Node(NodeOptions options, config::Configuration configuration);

  /// By any of its spellings (Registry::adopt). E1530 also: another daemon governs it.
  [[nodiscard]] Result<void> adopt(const std::string& folder, std::uint32_t owner);
  /// The folder of this daemon. E1504: another daemon has it.
  [[nodiscard]] Result<void> claim(const std::string& folder) { return claims_.own(folder); }
  [[nodiscard]] bool has_claim() const { return claims_.holds_own(); }
  /// Whether what runs on these devices is this daemon's. E1532: it governs others.
  [[nodiscard]] Result<void> check_devices(const std::vector<std::string>& uuids) const;
  /// That user was found to belong to the tenant, by more than can be told later (its cgroup, its labels).
  void allow(std::uint32_t user, const std::string& tenant) { allowed_.emplace(user, tenant); }

  /// Reads everything again, decides and writes. Returns what happened, oldest first.
  std::vector<history::Event> look(std::uint64_t now_ns);
  /// Before the daemon ends: what was held back so far, to be told as one.
  [[nodiscard]] std::vector<history::Event> finish();
  /// What the last look saw.
  [[nodiscard]] const Snapshot& snapshot() const { return snapshot_; }
  /// For the accounts. Peaks and denials are those since the last sample, also of runs that are over by now.
  [[nodiscard]] history::Sample take_sample();
  /// Runs that ended since the last call: key, end and exit code.
  struct EndedRun {
    history::RunKey run;
    history::TimeMs ended = 0;
    int exit_code = 0;
  };
  [[nodiscard]] std::vector<EndedRun> take_ended() { return std::exchange(ended_, {}); }

  /// What to type about a denial of a workload of `asker` that still runs; empty: it does not, or is not known.
  [[nodiscard]] std::string fix_now(const std::string& denial, const std::string& asker) const;

  /// E1801 E1502 E1503 E1104 E1304 E1305 E1411. The change is in the book when this returns.
  [[nodiscard]] Result<std::vector<LimitChanged>> change(const LimitRequest& request, const Caller& caller,
                                                         std::vector<history::Event>& events);

  /// What holds of them since the last look.
  void refresh(std::vector<LimitChanged>& changes) const;

  /// The same for a tenant of the configuration: `workload` is its name. Operators only. E1801 E1502 E1503 E1304 E1305.
  [[nodiscard]] Result<std::vector<TenantChange>> change_tenant(const LimitRequest& request, const Caller& caller,
                                                                std::vector<history::Event>& events);
  [[nodiscard]] const Tenants& tenants() const { return tenants_; }

  /// People's, then the configuration's.
  [[nodiscard]] std::vector<ScheduleRow> schedules() const;
  /// Operators only; holds from the next look on. Returns all, with `dry_run` as they would be. E1502, and those of
  /// Schedules.
  [[nodiscard]] Result<std::vector<ScheduleRow>> set_schedule(ScheduleWish wish, const Caller& caller, bool dry_run,
                                                              std::vector<history::Event>& events);
  [[nodiscard]] Result<std::vector<ScheduleRow>> remove_schedule(const std::string& name, const Caller& caller,
                                                                 bool dry_run, std::vector<history::Event>& events);

  /// Moves a running workload's memory to the host until somebody wants it back. E1801 E1502; E1546: it is on its way
  /// already; E1547: not possible now.
  [[nodiscard]] Result<void> suspend(const std::string& name, const Caller& caller,
                                     std::vector<history::Event>& events);
  /// It comes back as soon as there is room. E1801 E1502; E1546: it is not suspended.
  [[nodiscard]] Result<void> resume(const std::string& name, const Caller& caller);
  /// Asks its cooperating programs to give back what they do not use; what came of it is an event two seconds later.
  /// E1801 E1502 E1411.
  [[nodiscard]] Result<void> trim(const std::string& name, const Caller& caller);

  /// What changed of who is on the devices since the last call: paths of those that left, and of those that ask for
  /// their place again.
  struct Moves {
    std::vector<std::string> left;
    struct Asking {
      std::string path, because;
    };
    std::vector<Asking> asking;
  };
  [[nodiscard]] Moves take_moves() { return std::exchange(moves_, {}); }
  /// There is room for one that asked.
  void let_return(const std::string& path) { returning_.insert(path); }
  /// By tenant and device, of those that the configuration gives a limit or a guarantee.
  [[nodiscard]] Leases::Shares shares() const;
  /// Whether somebody who is no operator may keep `more` from others: within what the tenant is guaranteed, or in a
  /// slice that an operator made. E1502.
  [[nodiscard]] Result<void> may_promise(const DeviceView& device, const std::string& tenant, Bytes more,
                                         const std::string& slice) const;
  /// Whether everything that is promised on the device can be kept beside `more` for a workload of the tenant: of each
  /// tenant its own guarantee, or those of its workloads where they are more. `except`: a workload that is not counted;
  /// `slice`: the one that it is for, which is its own room. E1304.
  [[nodiscard]] Result<void> can_promise(const DeviceView& device, const std::string& tenant, Bytes more,
                                         const std::string& except = "", const std::string& slice = "") const;
  /// The same of a tenant's own guarantee, instead of the one it has. E1304.
  [[nodiscard]] Result<void> can_guarantee(const DeviceView& device, const std::string& tenant, Bytes guarantee) const;
  /// How many wait for memory: for alerts.
  void note_queue(std::size_t waiting) { queue_length_ = waiting; }
  /// Whether somebody's limit is lower than it was set, and could be raised when it asks.
  [[nodiscard]] bool anybody_held_back() const;
  /// Whether memory of programs is on its way at this moment.
  [[nodiscard]] bool anything_moves() const;

  /// New settings; what they change of limits holds from the next look on.
  void configure(config::Configuration configuration);
  [[nodiscard]] const config::Configuration& configuration() const { return configuration_; }

  [[nodiscard]] const Registry& registry() const { return registry_; }

 private:
  // node_notes.cpp
  void note_started(const Workload& workload, std::vector<history::Event>& events);
  void note_ended(const Workload& workload, std::vector<history::Event>& events);
  void note_denials(const Workload& workload, std::vector<history::Event>& events);
  [[nodiscard]] std::optional<Bytes> held_back_from(const Workload& workload, const ledger::Denial& denial) const;
  void tell_who_has_it(const Workload& workload, const ledger::Denial& denial,
                       policy::DenialExplained& explained) const;
  void note_ungoverned(std::vector<history::Event>& events);
  void note_waits(std::vector<history::Event>& events);
  void note_shrinking(std::vector<history::Event>& events);
  void note_orphaned(std::vector<history::Event>& events);
  void note_violators(std::vector<history::Event>& events);
  void note_activity();
  [[nodiscard]] history::Event event_of(const Workload& workload, const char* type, std::string text) const;
  [[nodiscard]] std::optional<int> gpu_of(const ledger::DeviceUuid& uuid) const;
  // node_balance.cpp
  void balance_devices(const machine::Machine& machine, std::vector<history::Event>& events);
  // node_advice.cpp
  /// What an account could be granted if it was configured to have more, by the latest balance; absent: not balanced
  /// yet.
  [[nodiscard]] std::optional<policy::LimitRoom> room_for(const Workload& workload, std::uint32_t account,
                                                          Bytes needed) const;
  [[nodiscard]] policy::DenialExplained explained(const Workload& workload, const ledger::Denial& denial) const;
  [[nodiscard]] Bytes believed(const Workload& workload, std::uint32_t account, Bytes effective) const;
  /// Before whatever may have come of it.
  void tell_moves_of(const Workload& workload, std::vector<history::Event>& events);
  void tell_move(const Workload& workload, const LimitMoves::Burst& burst, std::vector<history::Event>& events) const;
  // node_alerts.cpp
  void raise_alerts(std::vector<history::Event>& events);
  void warn_of_soft_limits(std::vector<history::Event>& events);
  // node_sample.cpp
  [[nodiscard]] Bytes new_peak(const Workload& workload, std::uint32_t account, Bytes used);
  // node_rules.cpp
  void follow_the_clock(std::vector<history::Event>& events);
  void apply_policies(const machine::Device& device, const std::vector<const Workload*>& workloads, BalanceInput& input,
                      std::vector<std::string>& because);
  void hold_by_driver(std::vector<history::Event>& events);
  void deal_with_ungoverned(std::vector<history::Event>& events);
  void note_slices();
  [[nodiscard]] Bytes slice_on(const DeviceView& device, const std::string& name) const;
  /// What is kept free of it, and slices in which nothing runs.
  [[nodiscard]] Bytes reserved_on(const machine::Device& device) const;
  [[nodiscard]] bool is_taken(const policy::Slice& slice) const;
  [[nodiscard]] std::vector<TenantChange::Over> over_limit(const std::string& tenant,
                                                           const config::Amount& limit) const;
  /// Of running workloads but that of `except`, by tenant.
  [[nodiscard]] std::map<std::string, Bytes> promises_on(const DeviceView& device, const std::string& except) const;
  /// Of tenants, their own.
  [[nodiscard]] std::map<std::string, Bytes> guarantees_on(const machine::Device& device) const;
  // node_schedules.cpp
  [[nodiscard]] std::vector<ScheduleRow> rows_of(const std::vector<ScheduleWish>& wishes) const;
  void apply_schedules();
  // node_idle.cpp
  void mind_the_idle(std::vector<history::Event>& events);
  void note_suspension(std::vector<history::Event>& events);
  void note_returned(const std::string& path);
  void note_trims(std::vector<history::Event>& events);
  void bring_back(std::vector<history::Event>& events);
  void set_away(const Workload& workload, OwnedWorkload& owned, bool away, std::vector<history::Event>& events);
  [[nodiscard]] std::vector<Bytes> to_be_moved(const Workload& workload) const;
  [[nodiscard]] Result<void> host_has_room(const Workload& workload, const std::vector<ProcessIdentity>& processes,
                                           Bytes needed) const;
  [[nodiscard]] Result<void> begin_suspension(const Workload& workload, bool held);
  void begin_trim(const Workload& workload, const std::string& by);
  [[nodiscard]] Result<const Workload*> workload_for(const std::string& name, const Caller& caller) const;
  [[nodiscard]] const config::Policy* policy_of(const Workload& workload);
  [[nodiscard]] std::optional<int> utilisation_of(const Workload& workload) const;
  [[nodiscard]] Result<std::vector<ProcessIdentity>> processes_of(const Workload& workload) const;
  // node_unrequested.cpp
  void note_unrequested();
  // node_standstill.cpp
  void break_standstills(std::vector<history::Event>& events);
  [[nodiscard]] StandstillWorkload standing_of(const Workload& workload);
  // node.cpp
  void look_at_devices();
  void forget(const Workload& workload);
  [[nodiscard]] bool is_of_this_node(const Workload& workload) const;
  void adopt_known_folders();
  [[nodiscard]] std::unordered_map<std::string, Knowledge> knowledge() const;
  void check_promises(std::vector<history::Event>& events);
  [[nodiscard]] std::string tenant_of(const Workload& workload);

  NodeOptions options_;
  config::Configuration configuration_;
  FolderClaims claims_;
  Registry registry_;
  Limits limits_;
  LimitMoves limit_moves_;
  std::string folders_file_;
  Tenants tenants_;
  Schedules schedules_;
  std::vector<config::Schedule> configured_schedules_;  // without those of people
  DriverLimits driver_limits_;
  config::Alerts alerts_;
  IdleWatch idle_;
  Forecast forecast_;
  std::set<ledger::DeviceUuid> devices_seen_;
  Result<machine::Machine> machine_ = fail("E1403", "the devices were not looked at yet.");
  Snapshot snapshot_;
  std::uint64_t now_ns_ = 0, first_look_ns_ = 0;

  struct Activity {
    std::vector<Bytes> used;
    std::uint64_t denials = 0, since_ns = 0;
  };
  std::unordered_map<std::string, Activity> activity_;             // by path
  std::unordered_map<std::string, std::vector<Bytes>> wanted_;     // by path and account: denied since the last look
  std::map<std::pair<int, std::int32_t>, bool> known_ungoverned_;  // by GPU and pid: whether it was told
  std::map<std::pair<int, std::int32_t>, int> violators_;          // the same; in how many looks in a row
  std::set<std::pair<std::uint32_t, std::string>> allowed_;        // user and tenant
  std::vector<history::Event> not_told_yet_;                       // not yet told
  struct Wait {
    std::uint64_t since_ns = 0, denials = 0, granted = 0;  // both as they were when it began
    std::uint32_t account = 0, waiting = 0;                // at most so many at once
    Bytes wanted, used, limit;
  };
  struct WaitsTold {
    std::uint64_t last_ns = 0;  // 0: never
    std::int64_t count = 0;     // of those since then
    std::uint64_t first_ns = 0;
  };
  std::unordered_map<std::string, WaitsTold> waits_told_;  // by path
  std::unordered_map<std::string, Wait> waits_;            // by path: whose charges sleep
  struct Shrinking {
    Bytes limit;  // under which it was told that it holds more
    bool over = false;
  };
  std::map<std::pair<std::string, std::uint32_t>, Shrinking> shrinking_;  // by path and account
  std::set<std::string> unchecked_;  // paths: new, or back on their device; what they were promised counts once it is
                                     // known that it can be kept
  std::set<std::string> returned_;   // of these, who was away
  std::vector<policy::Slice> slices_;
  std::vector<EndedRun> ended_;
  bool machine_lost_ = false, save_problem_told_ = false;

  struct Outsider {
    FileDescriptor handle;  // of the process; none: it cannot be had
    std::uint64_t seen_ns = 0, told_ns = 0;
    bool killed = false;
  };
  std::map<std::int32_t, Outsider> outsiders_;  // by pid: ungoverned, and what was done about it
  std::size_t queue_length_ = 0;
  std::vector<Workload> gone_;                                       // since the last sample
  std::unordered_map<std::string, std::vector<Bytes>> peaks_;        // by path and account: as last recorded
  std::map<std::string, std::deque<std::uint64_t>> recent_denials_;  // by TENANT/NAME: when, of the last minute
  struct Orphaned {
    Settled amount;
    bool told = false;
  };
  std::map<std::string, Orphaned> orphaned_;  // by device
  struct Unrequested {
    Settled settled;
    std::uint64_t times_emptied = 0;  // of the book, when it was found
  };
  std::map<std::pair<std::string, std::uint32_t>, Unrequested> unrequested_;  // by path and account
  std::map<std::string, Settled> others_;  // by device: what is used there and not of any book
  struct BalancedDevice {
    BalanceInput input;
    std::vector<std::pair<std::string, std::uint32_t>> places;  // path and account of each
    std::vector<std::string> because;                           // of each: the policy that sets its limit
  };
  std::map<std::string, BalancedDevice> balanced_;   // by device: the latest
  std::set<std::pair<std::string, int>> over_soft_;  // tenants over their soft limit, and where

  Suspension suspension_;
  Moves moves_;
  StandstillWatch standstills_;
  std::map<std::string, std::uint64_t> cannot_leave_;                // paths: when it was tried last, and failed
  std::set<std::string> returning_;                                  // paths: they have room, as far as is promised
  std::unordered_map<std::string, const config::Policy*> policies_;  // by path
  struct Trim {
    Bytes used;  // before
    std::uint64_t since_ns = 0;
    std::string by;
  };
  std::map<std::string, Trim> trims_;  // by path
};

}  // namespace ration::node
