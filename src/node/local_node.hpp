// A node without a daemon: the devices and one user's books, or for root all books, read by this process for one
// command.
// Promises: it answers the paths of NodeRoutes, and `GET /api/v1/denials/{id}`, with the daemon's code; it changes
// nothing except by a PATCH; no rule runs. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "book/store.hpp"
#include "http/router.hpp"
#include "node/engine/snapshot_builder.hpp"
#include "node/http/node_routes.hpp"

namespace ration::node {

class LocalNode final : private NodeHost {
 public:
  /// Reads the node. With `only_these_devices`, ignores workloads on other devices, such as devices of other simulated
  /// nodes. Fails with E1530 if the folder of the books belongs to another user.
  [[nodiscard]] static Result<std::unique_ptr<LocalNode>> open(NodeOptions options, book::Store store,
                                                               bool only_these_devices);

  /// Answers as the daemon would. Fails with E1501 for paths that need a daemon.
  [[nodiscard]] http::Response handle(const std::string& method, const std::string& target, const std::string& body,
                                      const http::Headers& headers = {});

  [[nodiscard]] const Snapshot& snapshot() const { return moment_.snapshot; }

 private:
  LocalNode(NodeOptions options, book::Store store);

  // NodeHost
  const Moment& moment() const override { return moment_; }
  Subjects& subjects() override { return subjects_; }
  const char* source() const override { return "direct"; }
  /// Saves the limits that a request changed, for a daemon that starts while the workload runs. Drops the events.
  void record(Events events) override;
  void tick_now() override;
  void tick_if_stale() override {}

  void watch_books_of(const machine::Machine& machine);
  [[nodiscard]] http::Response denial(const std::string& id);

  book::Store store_;
  NodeOptions options_;
  Moment moment_;
  Subjects subjects_;
  Result<void> recorded_;  ///< result of saving the last change
  SnapshotBuilder builder_;
  NodeRoutes routes_{*this};
  http::Router router_;
  std::vector<http::Handler> handlers_;
};

}  // namespace ration::node
