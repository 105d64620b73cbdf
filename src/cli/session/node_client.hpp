// The daemon over HTTP. Verbs that work without one, too, use NodeAccess (cli/node_access.hpp).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/session/node_access.hpp"
#include "cli/session/session.hpp"
#include "http/client.hpp"

namespace ration::cli {

/// A daemon that answers. Not thread-safe.
class NodeClient final : public NodeAccess {
 public:
  /// `--socket` or RATION_SOCKET (E1501 where nobody is there); else `[daemon] socket`, beside this user's books,
  /// /run/ration; absent: no daemon. E1502: whether one is there this user may not see.
  [[nodiscard]] static Result<std::optional<NodeClient>> find(const Session& session);
  /// The same, but E1501 where there is none.
  [[nodiscard]] static Result<NodeClient> require(const Session& session);

  Result<nlohmann::json> get(const std::string& path, std::span<const std::string_view> passed_over = {}) override;
  Result<nlohmann::json> patch(const std::string& path, const nlohmann::json& body,
                               const http::ExtraHeaders& headers = {}) override;
  bool is_daemon() const override { return true; }
  [[nodiscard]] Result<nlohmann::json> post(const std::string& path, const nlohmann::json& body);
  [[nodiscard]] Result<nlohmann::json> post_during(const std::string& path, const nlohmann::json& body,
                                                   const std::function<void()>& work);
  [[nodiscard]] Result<nlohmann::json> put(const std::string& path, const nlohmann::json& body);
  /// Null where there is nothing to say.
  [[nodiscard]] Result<nlohmann::json> remove(const std::string& path);
  /// An answer that is not a JSON document of ours: reports in other formats.
  [[nodiscard]] Result<std::string> text(const std::string& path);
  [[nodiscard]] Result<void> stream(const std::string& path,
                                    const std::function<bool(const http::StreamEvent&)>& taken);

  void interrupted_by(int descriptor) override { client_.interrupted_by(descriptor); }
  [[nodiscard]] const std::string& socket() const { return socket_; }
  /// The daemon's (http::Client).
  [[nodiscard]] std::optional<std::int32_t> daemon_pid() const noexcept { return client_.daemon_pid(); }
  /// By --socket or RATION_SOCKET; else it was found.
  [[nodiscard]] bool was_named() const { return was_named_; }

 private:
  explicit NodeClient(std::string socket, bool was_named = false)
      : socket_(socket), was_named_(was_named), client_(std::move(socket)) {}

  std::string socket_;
  bool was_named_;
  http::Client client_;
};

/// The snapshot of the node that was asked for: from the daemon, or, without one or where that governs another
/// simulated node, from the books and the driver.
/// `most_processes`: named of each workload; of thousands they are most of what is said. `passed_over`: fields that
/// nobody will look at. `filter`: only the workloads that match (rows/filter.hpp); empty: all. E1429.
[[nodiscard]] Result<nlohmann::json> node_snapshot(const Session& session,
                                                   std::size_t most_processes = node::kAllProcesses,
                                                   std::span<const std::string_view> passed_over = {},
                                                   const std::string& filter = {});
[[nodiscard]] std::string snapshot_path(std::size_t most_processes, const std::string& filter = {});

}  // namespace ration::cli
