// One node: its books, its devices, what was promised, and what is done about it at every tick. Used by the daemon,
// which adds the database and HTTP; and by tests, which bring books, devices and a clock of their own. Promises: no
// tick waits for a tenant; what a tick decides is in the books when it returns; every decision and every observation
// that a person may ask about is an event.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "node/rules.hpp"
#include "node/snapshot/snapshot_builder.hpp"

namespace ration::node {

class Engine {
 public:
  Engine(NodeOptions options, config::Configuration configuration);

  /// Reads everything again, decides and writes. Returns what happened, oldest first.
  Events tick(std::uint64_t now_ns, std::uint64_t time_of_day_ns);
  /// Before the daemon ends: what was held back so far, to be told as one.
  [[nodiscard]] Events finish();

  /// By any of its spellings (Registry::adopt). E1530 also: another daemon governs it.
  [[nodiscard]] Result<void> adopt(const std::string& folder, std::uint32_t owner);
  /// Whether what runs on these devices is this daemon's. E1532: it governs others.
  [[nodiscard]] Result<void> check_devices(const std::vector<std::string>& uuids) const;
  /// New settings; what they change of limits holds from the next tick on.
  void configure(config::Configuration configuration);

  /// What commands change. What the latest tick saw stays as it is until the next.
  [[nodiscard]] NodeState& state() { return state_; }
  [[nodiscard]] const NodeState& state() const { return state_; }
  [[nodiscard]] const Snapshot& snapshot() const { return state_.snapshot; }
  [[nodiscard]] const config::Configuration& configuration() const { return state_.configuration; }
  [[nodiscard]] const Registry& registry() const { return state_.registry; }

  /// Whether the next tick should come soon: memory of programs is on its way, or something is half seen.
  [[nodiscard]] bool is_unsettled() const;
  /// Whether somebody's limit is lower than it was set, and could be raised when it asks.
  [[nodiscard]] bool anybody_held_back() const;

 private:
  void query_devices();
  void run(const Rules& rules, Events& events);
  void adopt_known_folders();
  [[nodiscard]] bool is_of_this_node(const Workload& workload) const;
  [[nodiscard]] std::string tenant_of(const Workload& workload);

  NodeState state_;
  StateFile folders_file_;
  bool machine_lost_ = false;
  Rules before_, after_;  // the snapshot
  SnapshotBuilder builder_;
};

}  // namespace ration::node
