// The paths that need the present of a node alone: its devices, workloads and limits. Used by the daemon's HTTP
// interface, and by LocalNode where no daemon runs. Promise: both answer them with the same code, so a command shows
// and does the same.
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

/// What these paths need of whoever serves them.
class NodeHost {
 public:
  virtual ~NodeHost() = default;
  virtual NodeState& state() = 0;
  /// Who answers: `daemon`, `sim` (a daemon of a simulated node) or `direct`.
  [[nodiscard]] virtual const char* source() const = 0;
  /// Stores events and tells everybody who follows.
  virtual void record(Events events) = 0;
  virtual void tick_now() = 0;
  /// Looks again unless the last tick is a moment old: what is asked for is what is there.
  virtual void tick_if_stale() = 0;
};

/// Takes a method, a pattern (http/router.hpp) and what answers it.
using AddRoute =
    std::function<void(std::string, std::string_view, std::function<http::Response(const http::Request&)>)>;

class NodeRoutes {
 public:
  /// `more_of_snapshot`: its fields beside devices, tenants and workloads.
  explicit NodeRoutes(NodeHost& host, std::function<nlohmann::json(const Viewer&)> more_of_snapshot = {})
      : host_(host), more_of_snapshot_(std::move(more_of_snapshot)) {}
  void install(const AddRoute& add);

  /// The `data` of GET /api/v1/snapshot, as text.
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

/// Looks at the node before a change, so that what is held at this moment is what is changed; but nobody keeps the
/// daemon looking by asking for what he may not.
void tick_before_change(NodeHost& host, const http::Request& request);

}  // namespace ration::node
