// Starts a daemon. First takes the endpoints and files that another process might have, and only then changes anything.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "admission/configured_slices.hpp"
#include "base/clock.hpp"
#include "base/command_json.hpp"
#include "book/container_books.hpp"
#include "node/daemon.hpp"
#include "node/request/request.hpp"

namespace ration::node {
namespace {

bool make_folders(const std::string& folder) {
  for (std::size_t at = 1; at <= folder.size(); ++at) {
    if (at == folder.size() || folder[at] == '/') ::mkdir(folder.substr(0, at).c_str(), 0700);
  }
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// Returns the default token file, and makes it if it is missing. A user who can read the daemon's files may use the
// dashboard as an operator.
Result<std::string> own_token_file(const std::string& state) {
  const std::string path = state + "/token";
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return path;
  const std::string token = random_secret();
  const mode_t before = ::umask(0077);
  std::ofstream file(path);
  file << token << "\n";
  file.flush();
  ::umask(before);
  if (!file) return fail("E1531", fmt::format("{} cannot be written.", path), "Free some space there.", 1);
  return path;
}

/// The number of ports to try after the default one, which other daemons may have.
constexpr std::uint16_t kFurtherPorts = 100;

http::ServerOptions endpoints_of(const DaemonOptions& options, const config::Configuration& all) {
  const config::Daemon& settings = all.daemon;
  http::ServerOptions endpoints;
  endpoints.socket_path = !options.socket.empty()                ? options.socket
                          : !settings.socket.origin.is_default() ? settings.socket.value
                                                                 : options.folders.front().first + "/ration.sock";
  endpoints.containers_socket = options.containers_socket;
  endpoints.tcp_address = options.listen.value_or(settings.listen.value);
  // Tries further ports, so that a taken default port does not prevent the start.
  if (!options.listen && settings.listen.origin.is_default()) endpoints.further_ports = kFurtherPorts;
  endpoints.token_file = settings.token_file.value;
  endpoints.anonymous_sees_all = all.http.anonymous.value == config::Anonymous::kAll;
  return endpoints;
}

/// Takes everything that another process might have, so that a daemon that cannot start has changed nothing.
Result<http::Places> take_all(const http::ServerOptions& wanted, const std::string& folder) {
  if (!wanted.tcp_address.empty())
    if (const auto endpoint = config::parse_listen(wanted.tcp_address); !endpoint)
      return tl::unexpected(endpoint.error());
  if (!wanted.token_file.empty()) RATION_TRY(http::read_token(wanted.token_file));
  auto taken = http::take_places(wanted);
  if (FolderClaims claims; taken) RATION_TRY(claims.claim(folder));
  return taken;
}

http::StreamOptions stream_options(const std::string& database) {
  http::StreamOptions options;
  if (auto reader = history::Reader::open(database))
    if (const auto kept = reader->kept_events()) options.newest_id = static_cast<std::uint64_t>(kept->second);
  return options;
}

/// Adds options to the commands in an answer, so that these commands find this daemon. The options contain paths of
/// this machine, so anonymous viewers get none.
void add_options_of_node(http::Response& response, const CommandOptions& options, const http::Peer& peer) {
  if (options.empty() || response.body.find("\"fix\":\"") == std::string::npos) return;
  if (viewer_of(peer).totals_only) return;
  auto document = nlohmann::ordered_json::parse(response.body, nullptr, false);
  if (document.is_discarded()) return;
  add_command_options(document, options);
  response.body = document.dump() + (response.body.back() == '\n' ? "\n" : "");
}

http::ServerOptions server_options(http::ServerOptions endpoints, const CommandOptions& commands) {
  endpoints.complete = [&commands](http::Response& response, const http::Peer& peer) {
    add_options_of_node(response, commands, peer);
  };
  return endpoints;
}

NodeOptions node_options(const DaemonOptions& daemon, const history::History& past) {
  NodeOptions options;
  options.driver_folder = daemon.driver_folder;
  options.simulated = daemon.simulated;
  options.state_folder = daemon.state;
  options.runtime_folder = daemon.folders.front().first;
  options.slices = [] {
    const auto store = book::Store::open();
    return store ? admission::read_slices(*store).value_or(std::vector<admission::Slice>{})
                 : std::vector<admission::Slice>{};
  };
  options.earlier.recorded_to = past.committed_to();
  options.earlier.has = [database = past.path()](const Event& event) {
    auto reader = history::Reader::open(database);
    return reader && reader->has(to_record(event));
  };
  return options;
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(DaemonOptions options) {
  RATION_TRY(auto configuration, config::read_configuration());
  const config::Daemon& settings = configuration.daemon;
  http::ServerOptions wanted = endpoints_of(options, configuration);
  RATION_TRY(auto taken, take_all(wanted, options.folders.front().first));
  std::string& state = options.state;
  if (state.empty()) state = settings.state.origin.is_default() ? config::default_state_folder() : settings.state.value;
  if (!make_folders(state)) {
    return fail("E1531", fmt::format("the state folder {} cannot be used by this user.", state),
                "ration serve --state <a folder of yours>", 1);
  }
  ::mkdir((state + "/recordings").c_str(), 0700);  // where `ration record -o` puts what the dashboard shows
  // take_all() has rejected an address other than loopback without a token file.
  if (wanted.token_file.empty() && taken.tcp) {
    RATION_TRY(auto own, own_token_file(state));
    wanted.token_file = std::move(own);
  }
  history::Options keeping;
  keeping.longest_step = longest_step(settings);
  keeping.usage_kept = usage_kept(configuration.report);
  RATION_TRY(auto past, history::History::open(state + "/history.db", keeping));
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), std::move(configuration), std::move(past), wanted));
  for (const auto& [folder, owner] : daemon->options_.folders) {
    // Ignores that a user has too many folders (E1530): the user's programs register their folders again when they
    // start.
    if (auto good = daemon->engine_.watch(folder, owner); !good && good.error().exit_code != 5)
      return tl::unexpected(good.error());
  }
  if (auto listening = daemon->api_.server().listen(std::move(taken)); !listening)
    return tl::unexpected(listening.error());
  if (auto alone = daemon->engine_.folder_claims().claim(daemon->options_.folders.front().first); !alone)
    return tl::unexpected(alone.error());
  daemon->keep_accepted();
  return daemon;
}

Daemon::Daemon(DaemonOptions options, config::Configuration configuration, history::History history,
               const http::ServerOptions& endpoints)
    : options_(std::move(options)),
      recorder_(std::move(history)),
      engine_(node_options(options_, recorder_.history()), std::move(configuration)),
      leases_(options_.state + "/leases.json"),
      device_publisher_(engine_.subjects().claims,
                        options_.publish_devices ? options_.publish_devices(endpoints.socket_path) : PublishDevices()),
      announcer_(loop_, stream_options(recorder_.history().path()), options_.command_options),
      api_(*this, loop_, announcer_.stream(), server_options(endpoints, options_.command_options)) {
  last_reload_.accepted_ns = unix_time_ns();
  engine_.subjects().limits.unchecked.set_leased(
      [this](const std::string& path, int gpu) { return leases_.granted_to(path, gpu); });
  if (!leases_.damage().empty()) engine_.report(daemon_event(leases_.damage()));
  // Reads earlier run lengths from the database. Later ones come from ended workloads.
  constexpr std::size_t kRunsRead = 50'000;
  if (auto reader = history::Reader::open(recorder_.history().path())) {
    for (const history::PastRun& run : reader->past_runs(kRunsRead).value_or(std::vector<history::PastRun>{}))
      leases_.learn({run.user, run.tenant, name_without_number(run.workload, run.number), run.command},
                    static_cast<std::uint64_t>(run.lasted) * 1'000'000U);
  }
  announcer_.stream().on_subscribers([this](std::size_t) { schedule_tick(); });
}

}  // namespace ration::node
