// `ration inject`: somebody else's command that starts a container, with what a limit takes typed into it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/command.hpp"
#include "cli/container_edits.hpp"
#include "cli/verbs.hpp"
#include "cli/workload_start.hpp"
#include "engine/wrapper.hpp"

namespace ration::cli {
namespace {

using engine::cdi::Device;

/// Nobody can tell whether a container that is stopped will be started again, and its engine then wants the
/// specification of its device; so as many are kept as nobody has different limits. Each is a few KiB of text and
/// promises nothing.
constexpr std::size_t kLimitsKept = 64;

/// Where the engine looks for it. The daemon writes those of tenants and slices.
Result<void> publish(const Session& session, const ledger::Store& store, const Device& device) {
  const auto folder = specification_folder();
  if (!folder) return tl::unexpected(folder.error());
  const std::string file = specification_file(device);
  if (auto good = engine::cdi::check_unique({*folder, "/etc/cdi"}, file, device); !good) return good;
  if (device.kind != kLimitDevice || session.dry_run) return {};
  const auto edits = container_edits(session, store);
  if (!edits) return tl::unexpected(edits.error());
  if (auto written = engine::cdi::write(*folder, file, engine::cdi::specification(device.kind, {device.name}, *edits));
      !written)
    return written;
  engine::cdi::remove_oldest(*folder, specification_file({kLimitDevice, ""}), kLimitsKept);
  return {};
}

Result<int> become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return fail("E1419", fmt::format("'{}' cannot be started: {}.", words.front(), std::strerror(errno)),
              "Install it, or look at PATH: command -v " + words.front(), 127);
}

}  // namespace

Result<int> inject(const Session& session, const InjectOptions& typed) {
  RunOptions options = typed.run;
  if (options.program.empty())
    return fail("E1402", fmt::format("no command for {}.", typed.engine),
                "ration inject docker --limit 4GiB -- run --rm IMAGE", 2);
  if (typed.without_cdi || !engine::takes_devices(typed.engine)) {
    if (auto good = engine::check_foreground(typed.engine, options.program); !good) return tl::unexpected(good.error());
    options.engine = typed.engine;
    return run(session, std::move(options));
  }
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto daemon = NodeClient::require(session);  // the hook needs it; said here, where there is room to say it
  if (!daemon) return tl::unexpected(daemon.error());
  Session governed = session;
  governed.socket = daemon->socket();
  const auto device = container_device(governed, options, *store);
  if (!device) return tl::unexpected(device.error());
  auto words = engine::with_options(typed.engine, options.program, {"--device", device->qualified()});
  if (!words) return tl::unexpected(words.error());
  if (auto good = publish(governed, *store, *device); !good) return tl::unexpected(good.error());
  if (!session.dry_run) return become(*words);
  for (std::string& word : *words) word = shell_word(word);
  fmt::print("{}\n", fmt::join(*words, " "));
  return 0;
}

}  // namespace ration::cli
