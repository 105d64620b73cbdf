// `rationd`: the node with its clock, its database and its HTTP interface. Used by main() and by tests.
// Promises: it can be killed at any moment and started again: programs keep their limits, the books are taken up where
// they stand, and the time between is a gap in the accounts; a configuration that is wrong is rejected whole.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/command.hpp"
#include "history/history.hpp"
#include "http/event_loop.hpp"
#include "http/server.hpp"
#include "http/stream.hpp"
#include "node/accounting/sampler.hpp"
#include "node/api/api.hpp"
#include "node/api/login_token.hpp"
#include "node/api/metrics.hpp"
#include "node/device_publisher.hpp"
#include "node/engine.hpp"
#include "node/events/event_flood.hpp"
#include "node/events/webhook.hpp"
#include "node/leases/leases.hpp"
#include "node/worker.hpp"

namespace ration::node {

struct DaemonOptions {
  std::string driver_folder;  ///< empty: the machine's own driver
  bool simulated = false;
  std::string socket;                 ///< empty: as configured, or ration.sock beside the books
  std::optional<std::string> listen;  ///< over what is configured
  std::string state;                  ///< folder of the database; empty: as configured, or the user's own
  std::vector<std::pair<std::string, std::uint32_t>> folders;  ///< of books, and whose they are
  /// Given the daemon's socket. Empty: engines are told of nothing.
  std::function<PublishDevices(const std::string& socket)> publish_devices;
  CommandOptions command_options;  ///< of the commands in its answers: how a terminal elsewhere finds this daemon
};

class Daemon final : private ApiHost {
 public:
  /// Opens everything: E1501.. of the server, E1911.. of the database, E1601 of the configuration.
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> start(DaemonOptions options);

  /// Until SIGTERM or SIGINT. `ready` is called after the first tick.
  void run(const std::function<void()>& ready);

  /// Lines for a person who started it by hand. `with_link`: also the link that makes an operator of whoever opens it
  /// first.
  [[nodiscard]] std::string greeting(bool with_link);

 private:
  Daemon(DaemonOptions options, config::Configuration configuration, history::History history, std::string state,
         const http::ServerOptions& places);

  void tick();
  void schedule_tick();
  void publish(Events events);
  void tell(const std::vector<history::Event>& events);
  [[nodiscard]] nlohmann::json shown(const history::Event& event, bool with_details) const;
  /// Between two ticks; a longer stretch was watched by nobody.
  static history::TimeMs longest_step(const config::Daemon& settings);
  void count(const Events& events);
  void count_time();
  /// How long it ran, for the queue.
  void learn_from(const Workload& ended);
  void cut_as_configured(Events& events);
  void remember(const history::Sample& sample, Events& events);
  void send_alerts(const std::vector<history::Event>& events);
  void commit();
  void stay_reachable();

  // ApiHost
  NodeState& state() override { return engine_.state(); }
  const char* source() const override { return options_.simulated ? "sim" : "daemon"; }
  nlohmann::json more_of_snapshot(const Viewer& viewer) override;
  Engine& engine() override { return engine_; }
  Leases& leases() override { return leases_; }
  Worker& worker() override { return worker_; }
  http::EventStream& stream() override { return stream_; }
  const Counters& counters() override { return counters_; }
  const std::string& database() override { return database_; }
  const CommandOptions& command_options() override { return options_.command_options; }
  void record(Events events) override { publish(std::move(events)); }
  void tick_now() override { tick(); }
  void tick_if_stale() override;
  void tick_soon() override;
  Result<std::vector<std::string>> reload() override;
  Result<history::ClosedPeriod> close_period(const std::string& name) override;
  void report_damage() override { damage_ = true; }
  std::optional<std::string> log_in(std::string_view once) override;
  std::string dashboard_address() const override;
  std::string make_link() override;
  nlohmann::json health(bool folders) const override;
  [[nodiscard]] std::string other_port() const;

  DaemonOptions options_;
  std::string state_, socket_, listen_, token_file_, database_;
  history::History history_;
  Engine engine_;
  Sampler sampler_;
  Leases leases_;
  EventFlood flood_;
  Webhook webhook_;
  DevicePublisher device_publisher_;
  Counters counters_;
  http::EventLoop loop_;
  http::EventStream stream_;
  Api api_;
  http::Server server_;
  LoginTokens login_tokens_;
  Worker worker_;  // ends before what its jobs use
  http::Watch next_tick_, commit_, stop_on_term_, stop_on_interrupt_, reload_on_hangup_;
  std::uint64_t started_ns_ = 0, last_sample_ns_ = 0;
  history::Sample last_sample_;
  double last_tick_seconds_ = 0, tick_budget_ = 0, tick_budget_since_ = 0;
  bool busy_ = true;
  bool slices_due_ = true;                     // the configuration's, at the next tick that sees the devices
  std::string last_problem_, sample_problem_;  // of storing, and of what was seen; empty: none
  std::string set_aside_, unreachable_;        // of the history that was damaged, and of the socket; empty: neither
  std::atomic<bool> damage_{false};            // a reader found some
  bool clock_is_back_ = false;
};

}  // namespace ration::node
