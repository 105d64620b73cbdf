// The paths of docs/http-api.md. Used by the daemon. Promises: what a viewer may not see is left out here and nowhere
// else; what takes long runs on the worker; every refusal is a problem with a fix.
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
#include "node/engine.hpp"
#include "node/http/event_view.hpp"
#include "node/http/health.hpp"
#include "node/http/login_token.hpp"
#include "node/http/metrics.hpp"
#include "node/http/node_routes.hpp"
#include "node/http/request.hpp"
#include "node/queue/leases.hpp"
#include "node/worker.hpp"

namespace ration::node {

/// What the paths need of the daemon.
class ApiHost : public NodeHost {
 public:
  virtual Engine& engine() = 0;
  virtual Leases& leases() = 0;
  virtual Recorder& recorder() = 0;
  /// Of commands that are about this daemon.
  virtual const CommandOptions& command_options() = 0;
  /// Folder of the documentation's pages; may be missing.
  virtual std::string documentation() = 0;
  /// Something is about to change: the next tick comes at the quicker rate.
  virtual void tick_soon() = 0;
  /// Tells container engines of what there is now, whether or not that changed. E1704 E1715.
  virtual Result<void> publish_container_devices() = 0;
  virtual Result<std::vector<std::string>> reload() = 0;
  virtual Result<history::ClosedPeriod> close_period(const std::string& name) = 0;
};

class Api {
 public:
  /// `places`: where it is to be reached once somebody calls listen(). `stream`: of events and snapshots.
  Api(ApiHost& host, http::EventLoop& loop, http::EventStream& stream, http::ServerOptions places);

  [[nodiscard]] http::Server& server() { return server_; }
  /// Tells who follows what there is now.
  void publish_snapshot();

  /// `http://ADDRESS:PORT` of the dashboard; empty: the daemon listens on no port.
  [[nodiscard]] std::string dashboard_address() const;
  /// To the dashboard: makes an operator of the first who opens it.
  [[nodiscard]] std::string make_link();
  /// Why the port is not the one that was wanted; empty: it is.
  [[nodiscard]] std::string port_problem() const;

  /// Takes the folder of the books and the socket again where somebody removed them; a place that somebody else has by
  /// then is left to them. What is wrong, where that is news.
  [[nodiscard]] std::optional<std::string> keep_places();

 private:
  void install_now();
  void install_session();
  void install_changes();
  void install_schedules();
  void install_leases();
  void install_claims();
  void install_past();
  void install_reports();
  void install_plan();
  void install_pages();
  void install_documentation(const std::string& folder);

  [[nodiscard]] Health health();
  [[nodiscard]] nlohmann::json schedules();
  [[nodiscard]] http::Response answer(const std::string& schema, const nlohmann::json& data, int status = 200) const;
  /// Runs `make` with a Reader on the worker and answers with what it returns.
  void answer_later(const http::Responder& responder, std::function<Result<http::Response>(history::Reader&)> make);
  void ask_history(const http::Responder& responder, const std::string& schema,
                   std::function<Result<nlohmann::json>(history::Reader&)> question);

  ApiHost& host_;
  http::EventStream& stream_;
  http::Server server_;
  NodeRoutes routes_;
  LoginTokens login_tokens_;
  std::string unreachable_;  // why; empty: it is in its places
  Worker worker_;            // ends before what its jobs use
};

}  // namespace ration::node
