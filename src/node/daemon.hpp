// `rationd`: the node with its clock, its database and its HTTP interface. Used by main() and by tests.
// Promises: it can be killed at any moment and started again: programs keep their limits, the books are taken up where
// they stand, and the time between is a gap in the accounts; a configuration that is wrong is rejected whole.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/command.hpp"
#include "http/event_loop.hpp"
#include "node/accounting/recorder.hpp"
#include "node/claims/device_publisher.hpp"
#include "node/engine.hpp"
#include "node/http/announcer.hpp"
#include "node/http/api.hpp"
#include "node/queue/leases.hpp"
#include "node/tick_pace.hpp"

namespace ration::node {

struct DaemonOptions {
  std::string driver_folder;  ///< empty: the machine's own driver
  bool simulated = false;
  std::string socket;                 ///< empty: as configured, or ration.sock beside the books
  std::string containers_socket;      ///< for programs of containers; empty: none
  std::optional<std::string> listen;  ///< over what is configured
  std::string state;                  ///< folder of the database; empty: as configured, or the user's own
  std::vector<std::pair<std::string, std::uint32_t>> folders;  ///< of books, and whose they are
  /// Given the daemon's socket. Empty: engines are told of nothing.
  std::function<PublishDevices(const std::string& socket)> publish_devices;
  std::string documentation;       ///< folder of its pages; may be missing
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
  Daemon(DaemonOptions options, config::Configuration configuration, history::History history,
         const http::ServerOptions& places);

  void tick();
  void schedule_tick();
  void publish(Events events);
  /// Between two ticks; a longer stretch was watched by nobody.
  static history::TimeMs longest_step(const config::Daemon& settings);
  void step_leases(std::uint64_t now, Events& events);
  void cut_as_configured(Events& events);
  void commit();

  // ApiHost
  NodeState& state() override { return engine_.state(); }
  const char* source() const override { return options_.simulated ? "sim" : "daemon"; }
  Engine& engine() override { return engine_; }
  Leases& leases() override { return leases_; }
  Recorder& recorder() override { return recorder_; }
  const CommandOptions& command_options() override { return options_.command_options; }
  std::string documentation() override { return options_.documentation; }
  void record(Events events) override { publish(std::move(events)); }
  void tick_now() override { tick(); }
  void tick_if_stale() override;
  void tick_soon() override;
  Result<void> publish_container_devices() override { return device_publisher_.publish(engine_.state()); }
  Result<std::vector<std::string>> reload() override;
  Result<history::ClosedPeriod> close_period(const std::string& name) override;

  struct Watches {
    http::Watch next_tick, commit, stop_on_term, stop_on_interrupt, reload_on_hangup, tick_on_end;
  };

  DaemonOptions options_;
  Recorder recorder_;
  Engine engine_;
  Leases leases_;
  DevicePublisher device_publisher_;
  TickPace pace_;
  bool at_once_ = false;    // the next tick: memory has been moved, or may be moved in
  bool slices_due_ = true;  // the configuration's, at the next tick that sees the devices
  http::EventLoop loop_;
  Announcer announcer_;
  Api api_;
  Watches watches_;
};

}  // namespace ration::node
