// The node as a verb sees it. The daemon answers if one runs; otherwise this process answers the same paths with the
// same code (node/local_node.hpp). Used by verbs that show or change running workloads, so that no verb is written
// twice. docs/http-api.md describes paths and documents.
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

/// Answers of the node to requests by path. Not thread-safe.
class NodeAccess {
 public:
  virtual ~NodeAccess() = default;

  /// Connects to the daemon (NodeClient::find()). If no daemon runs, opens the node in this process.
  [[nodiscard]] static Result<std::unique_ptr<NodeAccess>> open(const Session& session);

  /// Returns the `data` of the answer, or the daemon's error. Leaves out the fields named in `passed_over`.
  [[nodiscard]] virtual Result<nlohmann::json> get(const std::string& path,
                                                   std::span<const std::string_view> passed_over = {}) = 0;
  [[nodiscard]] virtual Result<nlohmann::json> patch(const std::string& path, const nlohmann::json& body,
                                                     const http::ExtraHeaders& headers = {}) = 0;
  [[nodiscard]] virtual bool is_daemon() const = 0;
  /// Ends every wait for the daemon once that descriptor is readable.
  virtual void interrupted_by(int) {}

  /// Returns the field that says whether the daemon answered, for Session::print_json().
  [[nodiscard]] nlohmann::json source() const;
};

/// The node without a daemon: this user's books and the devices, read once when it opens.
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

/// Encodes a text as one part of a path or a query.
[[nodiscard]] std::string percent_encoded(const std::string& text);

/// Returns `data` of a document that ration wrote. Fails with E1508 for any other text.
[[nodiscard]] Result<nlohmann::json> data_of(std::string document, std::span<const std::string_view> passed_over = {});

}  // namespace ration::cli
