// The daemon's HTTP paths (docs/http-api.md).
// Promises: what a viewer may not see is left out here, and nowhere else; slow work runs on the worker; every rejection
// is a problem document with a fix.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/command.hpp"
#include "history/history.hpp"
#include "history/reader.hpp"
#include "http/server.hpp"
#include "http/stream.hpp"
#include "node/accounting/recorder.hpp"
#include "node/engine/engine.hpp"
#include "node/http/event_view.hpp"
#include "node/http/health.hpp"
#include "node/http/login_token.hpp"
#include "node/http/metrics.hpp"
#include "node/http/node_routes.hpp"
#include "node/http/worker.hpp"
#include "node/promises/device_publisher.hpp"
#include "node/queue/leases.hpp"

namespace ration::node {

/// The daemon, as these paths use it.
class ApiHost : public NodeHost {
 public:
  virtual Engine& engine() = 0;
  virtual Leases& leases() = 0;
  virtual DevicePublisher& device_publisher() = 0;
  virtual Recorder& recorder() = 0;
  /// Returns the options that commands about this daemon need.
  virtual const CommandOptions& command_options() = 0;
  /// Returns the folder of the documentation's pages, which may be missing.
  virtual std::string documentation() = 0;
  /// Makes the next tick come at the faster rate, because a change is expected.
  virtual void tick_soon() = 0;
  virtual Result<std::vector<std::string>> reload() = 0;
  [[nodiscard]] virtual const LastReload& last_reload() = 0;
  virtual Result<history::ClosedPeriod> close_period(const std::string& name) = 0;
};

class Api {
 public:
  /// Installs the paths. `stream` carries events and snapshots.
  Api(ApiHost& host, http::EventLoop& loop, http::EventStream& stream, http::ServerOptions endpoints);

  [[nodiscard]] http::Server& server() { return server_; }
  /// Sends the current snapshot to the stream's clients.
  void publish_snapshot();

  /// Returns `http://ADDRESS:PORT` of the dashboard; empty if the daemon listens on no port.
  [[nodiscard]] std::string dashboard_address() const;
  /// Returns a link to the dashboard. The first user who opens the link becomes an operator.
  [[nodiscard]] std::string make_link();
  /// Returns why the port is not the requested one; empty if it is.
  [[nodiscard]] Message port_problem() const;

  /// Recreates the folder of the books and the socket if they were removed, unless another process has taken them.
  /// Returns why that failed; nothing if it succeeded, or if the previous call failed for the same reason.
  [[nodiscard]] std::optional<Message> keep_endpoints();

 private:
  void install_now();
  void install_session();
  void install_changes();
  void install_subjects();
  void install_past();
  void install_reports();
  void install_recordings();
  void install_pages();
  void install_documentation(const std::string& folder);

  [[nodiscard]] Health health();
  [[nodiscard]] http::Response answer(const std::string& schema, const nlohmann::json& data, int status = 200) const;
  /// Runs `make` with a Reader on the worker, and answers with its result.
  void answer_later(const http::Responder& responder, std::function<Result<http::Response>(history::Reader&)> make);
  void ask_history(const http::Responder& responder, const std::string& schema,
                   std::function<Result<nlohmann::json>(history::Reader&)> question);

  ApiHost& host_;
  http::EventStream& stream_;
  http::Server server_;
  NodeRoutes routes_;
  LoginTokens login_tokens_;
  Message unreachable_;  // why clients cannot reach the daemon; empty if they can
  Worker worker_;        // both workers are last, so that they end before the members that their jobs use
  Worker recording_worker_;
};

}  // namespace ration::node
