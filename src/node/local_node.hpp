// A node without a daemon: the books of one user and the devices, read by this process for one command. Used by the
// command line. Promises: it answers the paths of NodeRoutes, and `GET /api/v1/denials/{id}`, with the daemon's own
// code; it changes nothing but what a PATCH asks for; no rule runs. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "book/store.hpp"
#include "http/router.hpp"
#include "node/http/node_routes.hpp"
#include "node/snapshot/snapshot_builder.hpp"

namespace ration::node {

class LocalNode final : private NodeHost {
 public:
  /// Looks at once. `only_these_devices`: workloads of other devices, as other simulated nodes have, are left out.
  /// Fails where the folder of the books is not this user's: E1530.
  [[nodiscard]] static Result<std::unique_ptr<LocalNode>> open(NodeOptions options, book::Store store,
                                                               bool only_these_devices);

  /// As the daemon would answer this user; E1501 for what only a daemon does.
  [[nodiscard]] http::Response handle(const std::string& method, const std::string& target, const std::string& body,
                                      const http::Headers& headers = {});

  [[nodiscard]] const Snapshot& snapshot() const { return state_.snapshot; }

 private:
  LocalNode(NodeOptions options, book::Store store);

  // NodeHost
  NodeState& state() override { return state_; }
  const char* source() const override { return "direct"; }
  /// Nobody keeps the events; the change is kept for a daemon that starts while the workload runs.
  void record(Events events) override;
  void tick_now() override;
  void tick_if_stale() override {}

  [[nodiscard]] http::Response denial(const std::string& id);

  book::Store store_;
  NodeState state_;
  Result<void> recorded_;  ///< the last change
  SnapshotBuilder builder_;
  NodeRoutes routes_{*this};
  http::Router router_;
  std::vector<std::function<http::Response(const http::Request&)>> handlers_;
};

}  // namespace ration::node
