// The node as a verb sees it: a daemon where one runs, else this process itself, which answers the same paths with the
// same code (node/local_node.hpp). Used by every verb that shows or changes running workloads, so that no verb is
// written twice. Paths and documents: docs/http-api.md.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "cli/session/session.hpp"
#include "http/client.hpp"
#include "node/local_node.hpp"

namespace ration::cli {

/// Not thread-safe.
class NodeAccess {
 public:
  virtual ~NodeAccess() = default;

  /// The daemon (NodeClient::find()), or, where none runs, the node without one.
  [[nodiscard]] static Result<std::unique_ptr<NodeAccess>> open(const Session& session);

  /// The answer's `data`; its error as the daemon says it. `passed_over`: fields that nobody will look at.
  [[nodiscard]] virtual Result<nlohmann::json> get(const std::string& path,
                                                   std::span<const std::string_view> passed_over = {}) = 0;
  [[nodiscard]] virtual Result<nlohmann::json> patch(const std::string& path, const nlohmann::json& body,
                                                     const http::ExtraHeaders& headers = {}) = 0;
  [[nodiscard]] virtual bool is_daemon() const = 0;
  /// Whatever waits for a daemon ends once that descriptor is readable.
  virtual void interrupted_by(int) {}

  /// What Session::print_json() merges in: who answered.
  [[nodiscard]] nlohmann::json source() const;
};

/// Without a daemon: this user's books and the devices, as they are when it is made.
class LocalAccess final : public NodeAccess {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LocalAccess>> open(const Session& session);

  Result<nlohmann::json> get(const std::string& path, std::span<const std::string_view> passed_over = {}) override;
  Result<nlohmann::json> patch(const std::string& path, const nlohmann::json& body,
                               const http::ExtraHeaders& headers = {}) override;
  bool is_daemon() const override { return false; }
  [[nodiscard]] const node::Snapshot& snapshot() const { return node_->snapshot(); }

 private:
  explicit LocalAccess(std::unique_ptr<node::LocalNode> node) : node_(std::move(node)) {}
  std::unique_ptr<node::LocalNode> node_;
};

/// A text as one part of a path or a query.
[[nodiscard]] std::string percent_encoded(const std::string& text);

/// `data` of a document of this tool's. E1508: it is none.
[[nodiscard]] Result<nlohmann::json> data_of(std::string document, std::span<const std::string_view> passed_over = {});

}  // namespace ration::cli
