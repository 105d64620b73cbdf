// `ration serve`, or `rationd`: runs the daemon in the foreground.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "adapters/containers/container_files.hpp"
#include "base/own_folder.hpp"
#include "cli/session/context.hpp"
#include "cli/start/container_edits.hpp"
#include "cli/start/demo_node.hpp"
#include "cli/verbs/verbs.hpp"
#include "config/configuration.hpp"
#include "node/books/known_folders.hpp"
#include "node/books/machine_daemon.hpp"
#include "node/daemon.hpp"

namespace ration::cli {
namespace {

/// Raises the limit of descriptors, since each workload and each client takes one, and a shell allows too few for a
/// large node.
void allow_many_descriptors() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, kEnough)) return;
  limit.rlim_cur = std::min(limit.rlim_max, kEnough);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Returns true if the stream is systemd's journal (a socket, by systemd.exec(5)), where a secret would stay readable.
bool is_journal(int stream) {
  struct stat status {};
  return ::fstat(stream, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// Prints what the daemon would do, and checks the configuration, since a mistake in it would stop the daemon.
Result<int> would_serve(const Session& session, const ServeOptions& options, const book::Store& store) {
  RATION_TRY(const auto configuration, config::read_configuration());
  const auto machine = session.machine();
  const std::string configured = configuration.daemon.listen.value;
  const std::string listen = options.listen_given ? options.listen : configured;
  fmt::print("would watch {} and the books in {}{}\n", counted(machine ? machine->devices.size() : 0, "GPU"),
             store.folder(), listen.empty() ? "" : ", and listen on " + listen);
  return 0;
}

/// Returns the context by which another terminal finds the daemon that starts here.
Result<Context> context_elsewhere(const Session& session, const book::Store& store) {
  if (auto demo = enclosing_demo()) return Context{std::move(*demo), ""};
  namespace fs = std::filesystem;
  std::error_code error;
  Context context = session.context;
  if (!context.socket.empty()) {
    context.socket = fs::absolute(context.socket, error);
  } else if (std::getenv("RATION_CONFIG") != nullptr || std::getenv("RATION_RUNTIME_DIR") != nullptr) {
    RATION_TRY(const auto configuration, config::read_configuration());
    const auto& socket = configuration.daemon.socket;
    if (!socket.origin.is_default())
      context.socket = socket.value;
    else if (std::getenv("RATION_RUNTIME_DIR") != nullptr)
      context.socket = store.folder() + "/ration.sock";
  }
  return context;
}

/// Returns the folder where container engines look for this node's devices; empty if the daemon describes no devices.
std::string devices_folder(const std::string& configured, const book::Store& store) {
  if (configured == "none") return {};
  if (configured != "auto") return configured;
  return ::getuid() == 0 && store.folder() == kMachineFolder ? adapters::cdi::kFolder : "";
}

node::PublishDevices publisher(Session session, const book::Store& store, const std::string& folder,
                               const std::string& socket) {
  session.socket = socket;
  return [session, store, folder](const node::ContainerDevices& devices) -> Result<void> {
    for (const auto& [kind, names] : devices)
      if (names.empty()) adapters::cdi::remove(folder, kind);
    RATION_TRY(const auto edits, container_edits(session, store));
    for (const auto& [kind, names] : devices) {
      if (names.empty()) continue;
      if (auto good = adapters::cdi::write(folder, kind, adapters::cdi::specification(kind, names, edits)); !good)
        return good;
    }
    return {};
  };
}

}  // namespace

Result<int> serve(const Session& session, const ServeOptions& options) {
  RATION_TRY(const auto store, session.store());
  RATION_TRY(const auto driver, session.driver_folder());
  node::DaemonOptions daemon;
  daemon.driver_folder = driver;
  daemon.simulated = session.simulated;
  daemon.socket = session.socket;
  daemon.state = options.state;
  if (options.listen_given) daemon.listen = options.listen;
  daemon.folders.emplace_back(store.folder(), ::getuid());
  if (session.dry_run) return would_serve(session, options, store);
  for (auto& folder : node::folders_of_others())
    if (folder.first != store.folder()) daemon.folders.push_back(std::move(folder));
  RATION_TRY(const auto configuration, config::read_configuration());
  if (const std::string folder = devices_folder(configuration.containers.cdi.value, store); !folder.empty()) {
    RATION_TRY(const auto shared, containers_folder(store));
    daemon.containers_socket = shared + "/" + std::filesystem::path(adapters::kContainerSocket).filename().string();
    daemon.publish_devices = [&, folder](const std::string& socket) {
      return publisher(session, store, folder, socket);
    };
  }
  RATION_TRY(const auto context, context_elsewhere(session, store));
  daemon.command_options = command_options(context);
  daemon.documentation = share_folder() + "/doc/ration/site";
  if (const auto machine = session.machine(); machine && node::machine_daemon_governs(machine->devices))
    return fail("E1504", "root's daemon governs the GPUs of this machine already; a second daemon would contradict it.",
                "ration ps   (ration run, set and why use that daemon, too)", 1);
  daemon.print = [&](const Error& error) { session.print_finding(error.id, error.what, error.fix); };
  allow_many_descriptors();
  RATION_TRY(auto started, node::Daemon::start(std::move(daemon)));
  started->run([&] {
    fmt::print("{}", started->greeting(!is_journal(STDOUT_FILENO)));
    std::fflush(stdout);
  });
  return 0;
}

}  // namespace ration::cli
