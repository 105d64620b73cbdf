// HTTP paths that show a node's present devices, workloads and tenants, and change their limits. The daemon serves
// these paths; without a daemon, LocalNode does.
// Promise: both answer with the same code, so that a command shows and does the same with and without a daemon.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "node/engine/subjects.hpp"
#include "node/request/route_host.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::node {

/// The node, as these paths use it.
class NodeHost : public RouteHost {
 public:
  [[nodiscard]] virtual const Moment& moment() const = 0;
  virtual Subjects& subjects() = 0;
};

class NodeRoutes {
 public:
  /// Makes the routes of `host`. `more_of_snapshot` returns the fields of a snapshot other than devices, tenants and
  /// workloads.
  explicit NodeRoutes(NodeHost& host, std::function<nlohmann::json(const Viewer&)> more_of_snapshot = {})
      : host_(host), more_of_snapshot_(std::move(more_of_snapshot)) {}
  void install(const AddRoute& add);

  /// Returns the `data` of GET /api/v1/snapshot, as text.
  [[nodiscard]] std::string snapshot(const Viewer& viewer, std::size_t most_processes = kAllProcesses);

 private:
  [[nodiscard]] std::string snapshot_text(const Snapshot& snapshot, const Viewer& viewer, std::size_t most_processes,
                                          const nlohmann::json& room = nullptr);
  /// Returns the memory that a new workload can take of each device, for the tenant in the parameter `tenant`: if the
  /// parameter is empty, the tenant that the client's workloads are charged to; null without the parameter. Fails as
  /// config::tenant_for() does, and with E1523 if the user is unknown.
  [[nodiscard]] Result<nlohmann::json> room_in(const http::Request& request);
  void install_changes(const AddRoute& add);
  [[nodiscard]] nlohmann::json tenants();
  [[nodiscard]] http::Response reply_text(const char* schema, const std::string& data) const;

  NodeHost& host_;
  std::function<nlohmann::json(const Viewer&)> more_of_snapshot_;
};

}  // namespace ration::node
