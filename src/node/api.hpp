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
#include "node/commands/caller.hpp"
#include "node/engine.hpp"
#include "node/leases.hpp"
#include "node/metrics.hpp"
#include "node/snapshot_json.hpp"
#include "node/worker.hpp"

namespace ration::node {

/// What the paths need of the daemon.
class ApiHost {
 public:
  virtual ~ApiHost() = default;
  virtual Engine& engine() = 0;
  virtual Leases& leases() = 0;
  virtual Worker& worker() = 0;
  virtual http::EventStream& stream() = 0;
  virtual const Counters& counters() = 0;
  virtual const std::string& database() = 0;
  /// Of commands that are about this daemon.
  virtual const CommandOptions& command_options() = 0;
  [[nodiscard]] virtual bool simulated() const = 0;
  /// Stores events and tells everybody who follows.
  virtual void record(std::vector<history::Event> events) = 0;
  virtual void look_now() = 0;
  /// Looks again unless the last look is a moment old: what is asked for is what is there.
  virtual void look_if_stale() = 0;
  /// Something is about to change: the next look comes at the quicker rate.
  virtual void look_soon() = 0;
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
  explicit Api(ApiHost& host) : host_(host) {}
  void install(http::Server& server);

  /// Root, the daemon's own user, members of group `ration`, and whoever has the token.
  [[nodiscard]] static Viewer viewer_of(const http::Peer& peer);

  /// The `data` of GET /api/v1/snapshot, as text.
  [[nodiscard]] std::string snapshot(const Viewer& viewer, std::size_t most_processes = kAllProcesses);

 private:
  void install_now(http::Server& server);
  void look_before_change(const http::Request& request);
  void install_changes(http::Server& server);
  void install_schedules(http::Server& server);
  void install_leases(http::Server& server);
  void install_past(http::Server& server);
  void install_reports(http::Server& server);
  void install_plan(http::Server& server);
  void install_pages(http::Server& server);

  [[nodiscard]] nlohmann::json tenants();
  [[nodiscard]] nlohmann::json schedules();
  [[nodiscard]] http::Response answer(const std::string& schema, const nlohmann::json& data, int status = 200) const;
  /// The same with `data` written already.
  [[nodiscard]] http::Response answer_text(const std::string& schema, const std::string& data, int status = 200) const;
  /// Runs `question` with a Reader on the worker and answers with what it returns.
  void ask_history(const http::Responder& responder, const std::string& schema,
                   std::function<Result<nlohmann::json>(history::Reader&)> question);

  ApiHost& host_;
};

/// One event as docs/http-api.md has it; its `why` only for those who may see the workload.
[[nodiscard]] nlohmann::json event_json(const history::Event& event, bool with_details);
/// Whether the viewer may see an event's process and reason: of their own workloads, and operators all.
[[nodiscard]] bool may_see_details(const history::Event& event, const Viewer& viewer);

/// Who asks, for what he may change and for the record.
[[nodiscard]] Caller caller_of(const http::Request& request);
/// The body as a JSON object. E1521.
[[nodiscard]] Result<nlohmann::json> body_of(const http::Request& request);
/// Whether the request asks only what would be: `?dry_run=1`.
[[nodiscard]] bool is_dry_run(const http::Request& request);
/// A text field; empty: not given. E1521: another type.
[[nodiscard]] Result<std::string> text_field(const nlohmann::json& body, const char* name);
/// Texts; none: not given. E1521: another type.
[[nodiscard]] Result<std::vector<std::string>> list_field(const nlohmann::json& body, const char* name);
/// A flag; false: not given. E1521: another type.
[[nodiscard]] Result<bool> flag_field(const nlohmann::json& body, const char* name);
/// A whole number; none: not given. E1521: another type, or not from `least` to `most`.
[[nodiscard]] Result<std::optional<std::int64_t>> number_field(const nlohmann::json& body, const char* name,
                                                               std::int64_t least, std::int64_t most);

}  // namespace ration::node
