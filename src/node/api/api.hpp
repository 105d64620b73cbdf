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
#include "node/api/event_view.hpp"
#include "node/api/metrics.hpp"
#include "node/api/node_routes.hpp"
#include "node/api/request.hpp"
#include "node/engine.hpp"
#include "node/leases/leases.hpp"
#include "node/worker.hpp"

namespace ration::node {

/// What the paths need of the daemon.
class ApiHost : public NodeHost {
 public:
  virtual Engine& engine() = 0;
  virtual Leases& leases() = 0;
  virtual Worker& worker() = 0;
  virtual http::EventStream& stream() = 0;
  virtual const Counters& counters() = 0;
  virtual const std::string& database() = 0;
  /// Of commands that are about this daemon.
  virtual const CommandOptions& command_options() = 0;
  /// Something is about to change: the next tick comes at the quicker rate.
  virtual void tick_soon() = 0;
  virtual Result<std::vector<std::string>> reload() = 0;
  virtual Result<history::ClosedPeriod> close_period(const std::string& name) = 0;
  /// The operators' token for the one-time token of a link; none: there is no such link, it was used, or is too old.
  [[nodiscard]] virtual std::optional<std::string> log_in(std::string_view once) = 0;
  /// `http://ADDRESS:PORT`; empty: the daemon listens on no port.
  [[nodiscard]] virtual std::string dashboard_address() const = 0;
  /// To the dashboard: makes an operator of the first who opens it.
  [[nodiscard]] virtual std::string make_link() = 0;
  /// The database turned out to be damaged. From any thread.
  virtual void report_damage() = 0;
  /// `folders`: also where the books stand, which tells names of users and places.
  [[nodiscard]] virtual nlohmann::json health(bool folders) const = 0;
};

class Api {
 public:
  explicit Api(ApiHost& host) : host_(host), routes_(host) {}
  void install(http::Server& server);

  /// The `data` of GET /api/v1/snapshot, as text.
  [[nodiscard]] std::string snapshot(const Viewer& viewer) { return routes_.snapshot(viewer); }

 private:
  void install_now(http::Server& server);
  void install_changes(http::Server& server);
  void install_schedules(http::Server& server);
  void install_leases(http::Server& server);
  void install_past(http::Server& server);
  void install_reports(http::Server& server);
  void install_plan(http::Server& server);
  void install_pages(http::Server& server);

  [[nodiscard]] nlohmann::json schedules();
  [[nodiscard]] http::Response answer(const std::string& schema, const nlohmann::json& data, int status = 200) const;
  /// Runs `question` with a Reader on the worker and answers with what it returns.
  void ask_history(const http::Responder& responder, const std::string& schema,
                   std::function<Result<nlohmann::json>(history::Reader&)> question);

  ApiHost& host_;
  NodeRoutes routes_;
};

}  // namespace ration::node
