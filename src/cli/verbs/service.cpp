// `ration service`: installs and controls the daemon under systemd, of the machine or of the user.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/session/machine_unit.hpp"
#include "cli/start/launch.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

// A reload waits for the daemon's answer, so that `systemctl reload` fails if the daemon rejects the configuration.
// Exit status 2 is a mistake in a file or an option, which another start would meet again. The unit leaves out
// PrivateDevices=, which would hide the GPUs, and ProtectProc= and PrivateTmp=, which would hide processes and books of
// tenants. ProtectSystem= is not strict, since the daemon changes the books of users, who have them in /run/user, in
// /tmp or in a folder of their own, and describes devices in /run/cdi.
constexpr const char* kUnit = R"([Unit]
Description=ration: GPU memory of this {whose}
Documentation=man:ration-serve(1)
{after}
[Service]
Type=exec
ExecStart={program} serve
ExecReload={program} config reload
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=1
{folders}NoNewPrivileges=yes
ProtectSystem=full
ReadWritePaths=-/etc/cdi
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
LimitNOFILE=65536
MemoryMax=1G

[Install]
WantedBy={target}
)";

std::string unit_text(bool user) {
  return fmt::format(kUnit, fmt::arg("whose", user ? "user" : "machine"),
                     fmt::arg("after", user ? "" : "After=nvidia-persistenced.service\n"),
                     fmt::arg("program", companion("ration")),
                     fmt::arg("folders", user ? ""
                                              : "RuntimeDirectory=ration\nRuntimeDirectoryMode=0755\n"
                                                "RuntimeDirectoryPreserve=yes\nStateDirectory=ration\n"
                                                "StateDirectoryMode=0700\n"),
                     fmt::arg("target", user ? "default.target" : "multi-user.target"));
}

std::string unit_path(bool user) {
  if (!user) return kMachineUnit;
  const char* given = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder =
      given != nullptr && *given == '/' ? given : std::string(home == nullptr ? "" : home) + "/.config";
  return folder + "/systemd/user/rationd.service";
}

Result<int> systemctl(const Session& session, bool user, std::vector<std::string> words) {
  std::vector<std::string> command{"systemctl"};
  if (user) command.emplace_back("--user");
  command.insert(command.end(), words.begin(), words.end());
  if (session.dry_run) {
    fmt::print("would run {}\n", fmt::join(command, " "));
    return 0;
  }
  // Lets systemctl print its own errors where systemd runs; elsewhere they would not help.
  if (has_systemd(user)) {
    const Ended ended = launch(command);
    if (ended.start_error == 0) return ended.exit_code;
  } else if (const Output output = output_of(command); output.exit_code == 0) {
    fmt::print("{}", output.text);
    return 0;
  }
  return fail("E1427", fmt::format("systemd does not run here for this {}.", user ? "user" : "machine"),
              "ration serve   runs the daemon in the foreground", 1);
}

Result<void> write_unit(const Session& session, const std::string& path, const std::string& text) {
  if (session.dry_run) {
    fmt::print("would write {}:\n{}", path, text);
    return {};
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (std::ofstream file(path); !(file << text) || !file.flush()) {
    return fail("E1428", fmt::format("{} cannot be written.", path),
                fmt::format("ls -ld {}   shows {}", path.substr(0, path.rfind('/')),
                            ::getuid() == 0 ? "its mode; the file system may be read-only" : "its owner"),
                5);
  }
  fmt::print("wrote {}\n", path);
  return {};
}

}  // namespace

Result<int> service(const Session& session, const ServiceOptions& options) {
  const bool user = options.user || ::getuid() != 0;
  const std::string path = unit_path(user), packaged = user ? "" : packaged_unit();
  if (options.action == "print") {
    fmt::print("{}", unit_text(user));
    return 0;
  }
  if (options.action == "install") {
    const bool is_new = packaged.empty() && !session.dry_run && ::access(path.c_str(), F_OK) != 0;
    if (packaged.empty()) {
      RATION_TRY(write_unit(session, path, unit_text(user)));
    } else {
      fmt::print("the package has installed {}\n", packaged);
    }
    if (!options.now) {
      fmt::print("next:  systemctl {}enable --now rationd\n", user ? "--user " : "");
      return 0;
    }
    if (auto reloaded = systemctl(session, user, {"daemon-reload"}); !reloaded || *reloaded != 0) {
      if (is_new && ::unlink(path.c_str()) == 0) fmt::print("removed {}\n", path);
      return reloaded;
    }
    auto enabled = systemctl(session, user, {"enable", "--now", "rationd"});
    if (enabled && *enabled == 0 && !session.dry_run)
      fmt::print("next:  ration dashboard   prints a link to the dashboard\n");
    return enabled;
  }
  if (options.action == "uninstall") {
    (void)systemctl(session, user, {"disable", "--now", "rationd"});
    std::error_code error;
    if (!packaged.empty() && !std::filesystem::exists(path, error)) {
      fmt::print("{} belongs to the package and stays:  apt remove ration   removes it\n", packaged);
      return 0;
    }
    if (session.dry_run ? !std::filesystem::exists(path, error) : !std::filesystem::remove(path, error))
      return fail("E1428", fmt::format("there is no {} to remove.", path), "ration service status", 3);
    fmt::print("{} {}\n", session.dry_run ? "would remove" : "removed", path);
    return 0;
  }
  if (options.action == "status") return systemctl(session, user, {"status", "--no-pager", "rationd"});
  return systemctl(session, user, {options.action, "rationd"});
}

}  // namespace ration::cli
