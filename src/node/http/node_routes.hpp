// The paths about the present of a node: devices, workloads, limits. The daemon serves them, and LocalNode without a
// daemon.
// Promise: both answer with the same code, so that a command shows and does the same with and without a daemon.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.hpp"
#include "node/http/request.hpp"
#include "node/snapshot/snapshot_json.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// The node, as these paths use it.
class NodeHost {
 public:
  virtual ~NodeHost() = default;
  virtual NodeState& state() = 0;
  /// Returns the kind of node that answers: `daemon`, `sim` (a daemon of a simulated node) or `direct`.
  [[nodiscard]] virtual const char* source() const = 0;
  /// Stores events and sends them to clients.
  virtual void record(Events events) = 0;
  virtual void tick_now() = 0;
  /// Ticks unless the last tick is recent, so that the answer is current.
  virtual void tick_if_stale() = 0;
};

/// Adds a route: method, pattern (http/router.hpp) and handler.
using AddRoute = std::function<void(std::string, std::string_view, http::Handler)>;

class NodeRoutes {
 public:
  /// `more_of_snapshot`: returns its fields beside devices, tenants and workloads.
  explicit NodeRoutes(NodeHost& host, std::function<nlohmann::json(const Viewer&)> more_of_snapshot = {})
      : host_(host), more_of_snapshot_(std::move(more_of_snapshot)) {}
  void install(const AddRoute& add);

  /// Returns the `data` of GET /api/v1/snapshot, as text.
  [[nodiscard]] std::string snapshot(const Viewer& viewer, std::size_t most_processes = kAllProcesses);

 private:
  [[nodiscard]] std::string snapshot_text(const Snapshot& snapshot, const Viewer& viewer, std::size_t most_processes);
  void install_changes(const AddRoute& add);
  [[nodiscard]] nlohmann::json tenants();
  [[nodiscard]] http::Response reply(const char* schema, const nlohmann::json& data) const;
  [[nodiscard]] http::Response reply_text(const char* schema, const std::string& data) const;

  NodeHost& host_;
  std::function<nlohmann::json(const Viewer&)> more_of_snapshot_;
};

/// Ticks before a change, so that it applies to current usage. A user who may not change anything cannot force ticks
/// this way.
void tick_before_change(NodeHost& host, const http::Request& request);

}  // namespace ration::node
