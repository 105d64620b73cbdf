// One node: its books, devices and limits, and the rules of every tick. The daemon adds the database and HTTP; tests
// bring their own books, devices and clock.
// Promises: no tick waits for a tenant; a tick's decisions are in the books when it returns; every decision and
// observation that a person may ask about is an event.
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

  /// Reads everything, decides and writes. Returns the events, oldest first.
  Events tick(std::uint64_t now_ns, std::uint64_t time_of_day_ns);
  /// Returns the delayed events, before the daemon ends.
  [[nodiscard]] Events finish();

  /// Watches a folder of books (Registry::watch). E1530 also if another daemon governs it.
  [[nodiscard]] Result<void> watch(const std::string& folder, std::uint32_t owner);
  /// Returns E1532 if the daemon governs none of these devices.
  [[nodiscard]] Result<void> check_devices(const std::vector<std::string>& uuids) const;
  /// Takes new settings; changed limits take effect at the next tick.
  void configure(config::Configuration configuration);

  /// Returns the state, which requests change. The snapshot stays that of the latest tick.
  [[nodiscard]] NodeState& state() { return state_; }
  [[nodiscard]] const NodeState& state() const { return state_; }
  [[nodiscard]] const Snapshot& snapshot() const { return state_.snapshot; }
  [[nodiscard]] const config::Configuration& configuration() const { return state_.configuration; }
  [[nodiscard]] const Registry& registry() const { return state_.registry; }

  /// Returns true if the next tick should come soon: memory is moving, or a rule is unsettled.
  [[nodiscard]] bool is_unsettled() const;
  /// Returns true if a limit is below its configured value, and might be raised on demand.
  [[nodiscard]] bool has_lowered_limit() const;

 private:
  void query_devices();
  void run(const Rules& rules, Events& events);
  void load_folders();
  [[nodiscard]] bool is_of_this_node(const Workload& workload) const;
  [[nodiscard]] std::string tenant_of(const Workload& workload);

  NodeState state_;
  StateFile folders_file_;
  bool machine_lost_ = false;
  Rules before_, after_;  // before and after the snapshot
  SnapshotBuilder builder_;
};

}  // namespace ration::node
