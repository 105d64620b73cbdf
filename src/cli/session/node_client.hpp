// The daemon over HTTP. Verbs that also work without a daemon use NodeAccess (cli/session/node_access.hpp).
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

/// The sentence about a machine whose daemon has ended.
inline constexpr const char* kDaemonIsMissing =
    "the daemon of this machine does not run: limits of tenants, guarantees and the queue do not hold now (systemctl "
    "status rationd)";

/// A connection to a running daemon. Not thread-safe.
class NodeClient final : public NodeAccess {
 public:
  /// Returns the daemon at `--socket` or RATION_SOCKET if one of them is given; the first request fails with E1501 if
  /// no daemon listens there. Otherwise returns the first daemon that listens: at `[daemon] socket`, beside this user's
  /// books, in /run/ration, or at the socket that a container gets; absent if no daemon runs. Fails with E1502 if this
  /// user may not open a socket.
  [[nodiscard]] static Result<std::optional<NodeClient>> find(const Session& session);
  /// Returns the socket of a daemon that was killed: the first usual socket on which nobody listens; absent if there is
  /// none.
  [[nodiscard]] static std::optional<std::string> left_behind(const Session& session);
  /// Returns the daemon that find() returns. Fails with E1501 if no daemon runs.
  [[nodiscard]] static Result<NodeClient> require(const Session& session);

  Result<nlohmann::json> get(const std::string& path, std::span<const std::string_view> passed_over = {}) override;
  Result<nlohmann::json> patch(const std::string& path, const nlohmann::json& body,
                               const http::ExtraHeaders& headers = {}) override;
  bool is_daemon() const override { return true; }
  [[nodiscard]] Result<nlohmann::json> post(const std::string& path, const nlohmann::json& body);
  [[nodiscard]] Result<nlohmann::json> post_during(const std::string& path, const nlohmann::json& body,
                                                   const std::function<void()>& work);
  [[nodiscard]] Result<nlohmann::json> put(const std::string& path, const nlohmann::json& body);
  /// Sends DELETE; returns null if the answer has no body.
  [[nodiscard]] Result<nlohmann::json> remove(const std::string& path);
  /// Returns an answer that is not a JSON document, such as a report in another format.
  [[nodiscard]] Result<std::string> text(const std::string& path);
  [[nodiscard]] Result<void> stream(const std::string& path,
                                    const std::function<bool(const http::StreamEvent&)>& taken);

  void interrupted_by(int descriptor) override { client_.interrupted_by(descriptor); }
  [[nodiscard]] const std::string& socket() const { return socket_; }
  /// Returns the daemon's pid (http::Client).
  [[nodiscard]] std::optional<std::int32_t> daemon_pid() const noexcept { return client_.daemon_pid(); }
  /// Returns true if --socket or RATION_SOCKET named the daemon, false if find() found it.
  [[nodiscard]] bool was_named() const { return was_named_; }

 private:
  explicit NodeClient(std::string socket, bool was_named = false)
      : socket_(socket), was_named_(was_named), client_(std::move(socket)) {}

  std::string socket_;
  bool was_named_;
  http::Client client_;
};

/// What a snapshot is to contain.
struct SnapshotContent {
  std::size_t processes =
      node::kAllProcesses;  ///< the most processes of each workload; thousands would fill the answer
  std::span<const std::string_view> passed_over{};  ///< fields to leave out
  std::string filter{};                             ///< only workloads that match (rows/filter.hpp); empty matches all
  /// Tenant for which the snapshot has the field `room`; empty for the tenant that the caller's workloads are charged
  /// to.
  std::optional<std::string> room_of{};
};

/// Returns the snapshot of the session's node: from the daemon or, if none runs or it governs another simulated node,
/// from the books and the driver. Fails with E1429 for an invalid filter, and with E1801 or E1502 for a tenant that
/// does not exist or that the caller may not name.
[[nodiscard]] Result<nlohmann::json> node_snapshot(const Session& session, const SnapshotContent& content = {});
[[nodiscard]] std::string snapshot_path(const SnapshotContent& content);

}  // namespace ration::cli
