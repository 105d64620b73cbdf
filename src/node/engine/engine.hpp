// One node: its moment, its subjects, and the rules of every tick. The daemon adds the database and HTTP; tests bring
// their own books, devices and clock.
// Promises: no tick waits for a tenant; a tick's decisions are in the books when it returns; every decision and
// observation that a person may ask about is an event.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "node/books/folder_claims.hpp"
#include "node/engine/rules.hpp"
#include "node/engine/snapshot_builder.hpp"

namespace ration::node {

class Engine {
 public:
  Engine(NodeOptions options, config::Configuration configuration);

  /// Reads everything, decides and writes.
  Effects tick(std::uint64_t now_ns, std::uint64_t time_of_day_ns);
  /// Sets the number of commands that wait for memory, which the next tick uses.
  void set_queue_length(std::size_t commands) { moment_.queue_length = commands; }
  /// Adds an event to those of the next tick.
  void report(Event event) { pending_events_.push_back(std::move(event)); }
  /// Returns the events that are still delayed; called before the daemon ends.
  [[nodiscard]] Events finish();

  /// Watches a folder of books (Registry::watch). Fails as Registry::watch() does, and with E1530 if another daemon
  /// governs the folder.
  [[nodiscard]] Result<void> watch(const std::string& folder, std::uint32_t owner);
  /// Checks that the daemon governs at least one of these devices. Fails with E1532.
  [[nodiscard]] Result<void> check_devices(const std::vector<std::string>& uuids) const;
  /// Takes new settings; changed limits take effect at the next tick.
  void configure(config::Configuration configuration);

  /// Returns what the latest tick found. The next tick reads the books again.
  [[nodiscard]] const Moment& moment() const { return moment_; }
  /// Returns the subjects, which requests change.
  [[nodiscard]] Subjects& subjects() { return subjects_; }
  [[nodiscard]] const Subjects& subjects() const { return subjects_; }
  [[nodiscard]] FolderClaims& folder_claims() { return folder_claims_; }
  [[nodiscard]] const NodeOptions& options() const { return options_; }
  [[nodiscard]] const Snapshot& snapshot() const { return moment_.snapshot; }
  [[nodiscard]] const config::Configuration& configuration() const { return moment_.configuration; }
  [[nodiscard]] const Registry& registry() const { return moment_.registry; }

  /// Returns true if the next tick should come soon: memory is moving, or a rule is unsettled.
  [[nodiscard]] bool is_unsettled() const;
  /// Returns true if a limit is below its configured value, and might be raised on demand.
  [[nodiscard]] bool has_lowered_limit() const;

 private:
  void query_devices();
  void run(const Rules& rules, Effects& effects);
  void configure_rules();
  void load_folders();
  [[nodiscard]] bool is_of_this_node(const Workload& workload) const;
  [[nodiscard]] std::string tenant_of(const Workload& workload);

  NodeOptions options_;
  Moment moment_;
  Subjects subjects_;
  FolderClaims folder_claims_;
  StateFile folders_file_;
  std::set<book::DeviceUuid> devices_seen_;
  bool machine_lost_ = false;
  Events pending_events_;  // events to report at the next tick
  TickRules rules_;
  SnapshotBuilder builder_;
};

}  // namespace ration::node
