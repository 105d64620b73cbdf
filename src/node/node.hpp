// One node: its books, its devices, what was promised, and what to do about it at every look. Used by the daemon, which
// adds the clock, the database and HTTP; and by tests, which add nothing.
// Promises: no look waits for a tenant; what a look decides is in the books when it returns; every decision and every
// observation that a person may ask about is an event.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/decisions/idle.hpp"
#include "node/forecast.hpp"
#include "node/history/sample.hpp"
#include "node/limits.hpp"
#include "node/snapshot.hpp"
#include "policy/configuration.hpp"
#include "policy/configuration_match.hpp"

namespace ration::node {

struct NodeOptions {
  std::string driver_folder;  ///< empty: the loader's own search
  std::string state_folder;   ///< where its numbers are kept; empty: nowhere
  /// Whether an event of that denial was recorded before a restart.
  std::function<bool(const std::string& denial)> recorded = [](const std::string&) { return false; };
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

/// What a change did, or would do, on one device.
struct LimitChanged {
  std::string workload;
  int gpu = 0;
  Bytes old_limit, limit, effective, guarantee, used, device_free;
  std::string held_back_by;
};

class Node {
 public:
  Node(NodeOptions options, policy::Configuration configuration);

  [[nodiscard]] Result<void> adopt(const std::string& folder, std::uint32_t owner);
  /// That user was found to belong to the tenant, by more than can be told later (its cgroup, its labels).
  void allow(std::uint32_t user, const std::string& tenant) { allowed_.emplace(user, tenant); }

  /// Reads everything again, decides and writes. Returns what happened, oldest first.
  std::vector<history::Event> look(std::uint64_t now_ns);
  /// What the last look saw.
  [[nodiscard]] const Snapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] history::Sample sample() const;
  /// Runs that ended since the last call: key, end and exit code.
  struct EndedRun {
    history::RunKey run;
    history::TimeMs ended = 0;
    int exit_code = 0;
  };
  [[nodiscard]] std::vector<EndedRun> take_ended() { return std::exchange(ended_, {}); }

  /// E1801 E1502 E1503 E1104 E1304 E1305 E1411. The change is in the book when this returns.
  [[nodiscard]] Result<std::vector<LimitChanged>> change(const LimitRequest& request, const Caller& caller,
                                                         std::vector<history::Event>& events);

  /// New settings; what they change of limits holds from the next look on.
  void configure(policy::Configuration configuration);
  [[nodiscard]] const policy::Configuration& configuration() const { return configuration_; }

  [[nodiscard]] const Registry& registry() const { return registry_; }

 private:
  void note_started(const Workload& workload, std::vector<history::Event>& events);
  void note_ended(const Workload& workload, std::vector<history::Event>& events);
  void note_denials(const Workload& workload, std::vector<history::Event>& events);
  void note_ungoverned(std::vector<history::Event>& events);
  void note_violators(std::vector<history::Event>& events);
  void note_activity();
  void balance_devices(const policy::Machine& machine, std::vector<history::Event>& events);
  void raise_alerts(std::vector<history::Event>& events);
  [[nodiscard]] history::Event event_of(const Workload& workload, const char* type, std::string text) const;
  [[nodiscard]] std::map<std::string, Knowledge> knowledge() const;
  [[nodiscard]] std::string tenant_of(const Workload& workload);
  [[nodiscard]] std::optional<int> gpu_of(const ledger::DeviceUuid& uuid) const;

  NodeOptions options_;
  policy::Configuration configuration_;
  Registry registry_;
  Limits limits_;
  policy::Alerts alerts_;
  IdleWatch idle_;
  Forecast forecast_;
  Result<policy::Machine> machine_ = fail("E1403", "the devices were not looked at yet.");
  Snapshot snapshot_;
  std::uint64_t now_ns_ = 0, first_look_ns_ = 0;

  struct Activity {
    std::vector<Bytes> used;
    std::uint64_t denials = 0, since_ns = 0;
  };
  std::map<std::string, Activity> activity_;          // by path
  std::map<std::string, std::vector<Bytes>> wanted_;  // by path and account: refused since the last look
  std::set<std::pair<int, std::int32_t>> known_ungoverned_, known_violators_;  // GPU and pid
  std::set<std::pair<std::uint32_t, std::string>> allowed_;                    // user and tenant
  std::vector<history::Event> refused_tenants_;                                // not yet told
  std::vector<EndedRun> ended_;
  bool machine_lost_ = false;
};

}  // namespace ration::node
