// The daemon, `rationd`: the engine with a clock, a database and the HTTP interface.
// Promises: if the daemon is killed at any moment and restarted, programs keep their limits, books stay as they are,
// and the accounts have a gap for the time without a daemon; an invalid configuration is rejected as a whole.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/command.hpp"
#include "http/event_loop.hpp"
#include "node/accounting/recorder.hpp"
#include "node/engine/engine.hpp"
#include "node/http/announcer.hpp"
#include "node/http/api.hpp"
#include "node/promises/device_publisher.hpp"
#include "node/queue/leases.hpp"
#include "node/tick_pace.hpp"

namespace ration::node {

struct DaemonOptions {
  std::string driver_folder;  ///< folder of the driver; empty for the machine's own
  bool simulated = false;
  std::string socket;  ///< path of the socket; if empty, the configured path, else ration.sock in the first folder
  std::string containers_socket;      ///< socket for programs in containers; empty for none
  std::optional<std::string> listen;  ///< address of the dashboard; absent for the configured one
  std::string state;                  ///< folder of the database; if empty, the configured folder, else the user's own
  std::vector<std::pair<std::string, std::uint32_t>> folders;  ///< folders of books, and their owners
  /// A function that takes the path of the daemon's socket and makes the function that publishes devices to container
  /// engines; empty if nothing is published.
  std::function<PublishDevices(const std::string& socket)> publish_devices;
  std::string documentation;                ///< folder of the documentation's pages; may be missing
  std::function<void(const Error&)> print;  ///< prints why a reload was rejected; empty if nothing is printed
  CommandOptions command_options;  ///< options added to commands in answers, so that such a command finds this daemon
};

class Daemon final : private ApiHost {
 public:
  /// Starts a daemon. Fails with errors of the server (E1501 and following), of the database (E1911 and following) and
  /// of the configuration (E1601).
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> start(DaemonOptions options);

  /// Runs until SIGTERM or SIGINT. Calls `ready` after the first tick.
  void run(const std::function<void()>& ready);

  /// Returns lines for a person who started the daemon by hand. With `with_link`, adds a link to the dashboard; the
  /// first user who opens the link becomes an operator.
  [[nodiscard]] std::string greeting(bool with_link);

 private:
  Daemon(DaemonOptions options, config::Configuration configuration, history::History history,
         const http::ServerOptions& endpoints);

  void tick();
  void schedule_tick();
  void stop_soon();
  void publish(Events events);
  void keep_accepted() const;  // for commands of all users, if this is the daemon of the machine
  /// Returns the longest time between two ticks that does not count as a gap.
  static history::TimeMs longest_step(const config::Daemon& settings);
  static history::TimeMs usage_kept(const config::Report& settings);
  void apply_configured_slices(Events& events);
  void commit();

  // ApiHost
  const Moment& moment() const override { return engine_.moment(); }
  Subjects& subjects() override { return engine_.subjects(); }
  const char* source() const override { return options_.simulated ? "sim" : "daemon"; }
  Engine& engine() override { return engine_; }
  Leases& leases() override { return leases_; }
  DevicePublisher& device_publisher() override { return device_publisher_; }
  Recorder& recorder() override { return recorder_; }
  const CommandOptions& command_options() override { return options_.command_options; }
  std::string documentation() override { return options_.documentation; }
  void record(Events events) override { publish(std::move(events)); }
  void tick_now() override { tick(); }
  void tick_if_stale() override;
  void tick_soon() override;
  Result<std::vector<std::string>> reload() override;
  const LastReload& last_reload() override { return last_reload_; }
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
  LastReload last_reload_;
  bool replaced_ = false;      // true once the daemon of the machine governs the same devices
  bool tick_at_once_ = false;  // true if memory has moved, or a resume may start
  bool slices_due_ = true;     // true if the next tick that finds devices must apply the configured slices
  http::EventLoop loop_;
  Announcer announcer_;
  Api api_;
  Watches watches_;
};

}  // namespace ration::node
