// `ration inject`: runs a container engine's command with the options that put the container under a limit, or writes
// the limit into the configuration of a container.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "adapters/containers/compose.hpp"
#include "adapters/containers/oci_configuration.hpp"
#include "adapters/containers/wrapper.hpp"
#include "base/command.hpp"
#include "base/stable_hash.hpp"
#include "base/strings.hpp"
#include "base/whole_file.hpp"
#include "cli/start/container_edits.hpp"
#include "cli/start/launch.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;
using adapters::cdi::Device;
using Words = std::vector<std::string>;

/// The largest configuration that is read; a usual one has 10 KiB.
constexpr std::size_t kMaxConfiguration = 4'000'000;

/// The device of a container, on a node whose daemon runs.
struct Governed {
  Session session;
  book::Store store;
  Device device;
};

/// Finds the container's device. Fails with E1501 if no daemon runs, since the hook would fail later, with less room to
/// say why.
Result<Governed> govern(const Session& session, const RunOptions& options) {
  RATION_TRY(const auto store, session.store());
  RATION_TRY(const auto daemon, NodeClient::require(session));
  Session governed = session;
  governed.socket = daemon.socket();
  RATION_TRY(const auto device, container_device(governed, options, store));
  return Governed{std::move(governed), store, device};
}

/// The largest number of specifications of limits in the folder. A stopped container may be started again, and its
/// engine then needs the specification of its device. Each specification has a few KiB and keeps no GPU memory.
constexpr std::size_t kLimitsKept = 64;

/// Writes the specification of a limit where engines look for it. The daemon writes the specifications of tenants and
/// slices.
Result<void> publish(const Governed& container) {
  const auto& [session, store, device] = container;
  RATION_TRY(const auto folder, specification_folder());
  const std::string file = specification_file(device);
  RATION_TRY(adapters::cdi::check_unique({folder, "/etc/cdi"}, file, device));
  if (device.kind != kLimitDevice || session.dry_run) return {};
  RATION_TRY(const auto edits, container_edits(session, store));
  if (auto written =
          adapters::cdi::write(folder, file, adapters::cdi::specification(device.kind, {device.name}, edits));
      !written)
    return written;
  adapters::cdi::remove_oldest(folder, specification_file({kLimitDevice, ""}), kLimitsKept);
  return {};
}

/// Replaces this process by the command, or prints the command with --dry-run.
Result<int> become_or_print(const Session& session, const Words& words) {
  if (!session.dry_run) return become(words);
  fmt::print("{}\n", shown_command(words));
  return 0;
}

Result<int> inject_device(const Session& session, const InjectOptions& typed) {
  RATION_TRY(const auto container, govern(session, typed.run));
  RATION_TRY(auto words,
             adapters::with_options(typed.engine, typed.run.program, {"--device", container.device.qualified()}));
  RATION_TRY(publish(container));
  return become_or_print(session, words);
}

/// Returns the services of the user's compose files, as `docker compose` lists them.
Result<Words> services_of(const Words& compose) {
  Words words = compose;
  words.insert(words.end(), {"config", "--services"});
  const Output listed = output_of(words, Errors::kLeftAlone);
  if (listed.exit_code != 0)
    return fail("E1711", "docker compose does not list the services of the file.",
                fmt::format("Name the services: --service NAME; or see why: {}", shown_command(words)), 1);
  Words services;
  for (const std::string_view line : ration::split(listed.text, '\n'))
    if (!trimmed(line).empty()) services.emplace_back(trimmed(line));
  return services;
}

Result<int> inject_compose(const Session& session, const InjectOptions& typed) {
  RATION_TRY(auto read, adapters::read_compose_words(typed.run.program));
  RATION_TRY(const auto container, govern(session, typed.run));
  Words words{"docker", "compose"};
  words.insert(words.end(), read.options.begin(), read.options.end());
  RATION_TRY(const auto services, typed.services.empty() ? services_of(words) : typed.services);
  RATION_TRY(const auto text, adapters::compose_override(services, container.device.qualified()));
  RATION_TRY(publish(container));
  // Derives the name of the file from its content, so that two commands never change each other's file.
  const std::string path = fmt::format("{}/compose-{:016x}.yaml", container.store.folder(), stable_hash(text));
  if (!session.dry_run && !write_whole(path, text, 0600))
    return fail("E1405", fmt::format("{} cannot be written: {}.", path, std::strerror(errno)),
                "Free some space there, or export RATION_RUNTIME_DIR=<another folder>", 125);
  words.insert(words.end(), {"-f", path});
  words.insert(words.end(), read.command.begin(), read.command.end());
  auto done = become_or_print(session, words);
  if (done) fmt::print("# {}\n{}", path, text);
  return done;
}

Result<int> inject_configuration(const Session& session, const InjectOptions& typed) {
  if (typed.bundle.empty() || !typed.run.program.empty())
    return fail("E1710", "oci needs the folder of a bundle, or its config.json, and no words after --.",
                "ration inject oci /bundles/train --limit 4GiB", 2);
  std::error_code error;
  fs::path path = fs::canonical(typed.bundle, error);  // writes to the target of a link, and keeps the link
  if (!error && fs::is_directory(path, error)) path = fs::canonical(path / "config.json", error);
  if (error)
    return fail("E1710", fmt::format("{}: {}.", typed.bundle, error.message()),
                "ration inject oci /bundles/train --limit 4GiB   (there is /bundles/train/config.json)", 2);
  const auto configuration = read_whole(path, kMaxConfiguration);
  if (!configuration)
    return fail("E1710", fmt::format("{} cannot be read: {}.", path.string(), configuration.error()),
                "ration inject oci /bundles/train --limit 4GiB   (there is /bundles/train/config.json)", 2);
  RATION_TRY(const auto container, govern(session, typed.run));
  RATION_TRY(const auto edits, container_edits(container.session, container.store));
  auto text = adapters::with_edits(*configuration, container.device, edits);
  if (!text) {
    text.error().what = fmt::format("{}: {}", path.string(), text.error().what);
    return tl::unexpected(text.error());
  }
  if (session.dry_run) {
    fmt::print("{}", *text);
    return 0;
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !write_whole(path, *text, status.st_mode & 07777))
    return fail("E1710", fmt::format("{} cannot be written: {}.", path.string(), std::strerror(errno)),
                "ls -ld " + shell_word(path.parent_path().string()), 1);
  return 0;
}

}  // namespace

Result<int> inject(const Session& session, const InjectOptions& typed) {
  if (typed.engine == "oci") return inject_configuration(session, typed);
  if (!typed.bundle.empty())
    return fail("E1707",
                fmt::format("'{}' cannot stand before --: only oci accepts a second word before --.", typed.bundle),
                "ration inject docker --limit 4GiB -- run --rm IMAGE", 2);
  if (typed.run.program.empty())
    return fail("E1402", fmt::format("the command of {} is missing after --.", typed.engine),
                "ration inject docker --limit 4GiB -- run --rm IMAGE", 2);
  if (typed.engine == "compose") return inject_compose(session, typed);
  if (!typed.without_cdi && adapters::takes_devices(typed.engine)) return inject_device(session, typed);
  RunOptions options = typed.run;
  RATION_TRY(adapters::check_foreground(typed.engine, options.program));
  options.engine = typed.engine;
  return run(session, std::move(options));
}

}  // namespace ration::cli
