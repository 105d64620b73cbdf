#include "cli/session/node_client.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "adapters/containers/container_files.hpp"
#include "base/own_folder.hpp"
#include "cli/session/machine_unit.hpp"
#include "config/settings.hpp"
#include "node/snapshot/snapshot_json.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

/// Returns true if a daemon listens at that socket. Fails with E1502 if this user may not open it.
Result<bool> is_listening(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const FileDescriptor probe{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!probe) return false;
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  if (errno != EACCES && errno != EPERM) return false;
  const std::string folder = path.substr(0, path.rfind('/'));
  return fail("E1502", fmt::format("this user may not open {}, so ration cannot tell whether a daemon runs.", path),
              fmt::format("sudo chmod 755 {}   or ask its owner: ls -ld {}", folder, folder), 5);
}

Result<json> answer_of(Result<http::Answer> answer, std::span<const std::string_view> passed_over = {}) {
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->ok()) return tl::unexpected(http::error_of(*answer));
  return data_of(std::move(answer->body), passed_over);
}

/// Returns the sockets at which a daemon may listen if nobody named one.
std::vector<std::string> usual_sockets(const Session& session) {
  std::vector<std::string> candidates;
  if (const auto accepted = config::read_accepted();  // ignores mistakes, which the daemon reports
      accepted && !accepted->configuration.daemon.socket.origin.is_default())
    candidates.push_back(accepted->configuration.daemon.socket.value);
  if (const auto store = session.store()) candidates.push_back(store->folder() + "/ration.sock");
  // Workloads register with a daemon at one of these sockets even if their books lie in another folder.
  candidates.push_back(std::string(kMachineFolder) + "/ration.sock");
  candidates.emplace_back(adapters::kContainerSocket);
  return candidates;
}

}  // namespace

Result<std::optional<NodeClient>> NodeClient::find(const Session& session) {
  if (!session.socket.empty()) return NodeClient(session.socket, true);
  for (const std::string& candidate : usual_sockets(session)) {
    RATION_TRY(const auto listens, is_listening(candidate));
    if (listens) return NodeClient(candidate);
  }
  return std::nullopt;
}

std::optional<std::string> NodeClient::left_behind(const Session& session) {
  for (const std::string& path : usual_sockets(session))
    if (::access(path.c_str(), F_OK) == 0 && !is_listening(path).value_or(true)) return path;
  return std::nullopt;
}

Result<NodeClient> NodeClient::require(const Session& session) {
  RATION_TRY(auto found, find(session));
  if (found) return std::move(*found);
  // The machine had a daemon since it started, so a second daemon of this user is no remedy.
  if (session.socket.empty() && ::getuid() != 0 &&
      ::access((std::string(kMachineFolder) + "/daemon.lock").c_str(), F_OK) == 0)
    return fail("E1501", fmt::format("the daemon of this machine does not answer ({}/ration.sock).", kMachineFolder),
                "Ask root: systemctl start rationd", 3);
  const auto store = session.store();
  const std::string folder = store ? store->folder() : kMachineFolder;
  const bool has_unit = ::getuid() == 0 && !session.simulated && folder == kMachineFolder && has_machine_unit();
  return fail(
      "E1501", fmt::format("the daemon is not running (no {}/ration.sock).", folder),
      has_unit ? "systemctl start rationd" : "ration serve   in another terminal, or: ration service install --now", 3);
}

Result<json> NodeClient::get(const std::string& path, std::span<const std::string_view> passed_over) {
  return answer_of(client_.get(path), passed_over);
}
Result<json> NodeClient::post(const std::string& path, const json& body) {
  return answer_of(client_.post(path, body.dump(-1, ' ', false, json::error_handler_t::replace)));
}
Result<json> NodeClient::post_during(const std::string& path, const json& body, const std::function<void()>& work) {
  return answer_of(client_.post_during(path, body.dump(-1, ' ', false, json::error_handler_t::replace), work));
}
Result<json> NodeClient::patch(const std::string& path, const json& body, const http::ExtraHeaders& headers) {
  return answer_of(client_.patch(path, body.dump(-1, ' ', false, json::error_handler_t::replace), headers));
}
Result<json> NodeClient::put(const std::string& path, const json& body) {
  return answer_of(client_.put(path, body.dump(-1, ' ', false, json::error_handler_t::replace)));
}

Result<json> NodeClient::remove(const std::string& path) {
  auto answer = client_.remove(path);
  if (answer && answer->status == 204) return json(nullptr);
  return answer_of(std::move(answer));
}

Result<std::string> NodeClient::text(const std::string& path) {
  RATION_TRY(auto answer, client_.get(path));
  if (!answer.ok()) return tl::unexpected(http::error_of(answer));
  return std::move(answer.body);
}

Result<void> NodeClient::stream(const std::string& path, const std::function<bool(const http::StreamEvent&)>& taken) {
  return client_.stream(path, taken);
}

namespace {

/// Returns true if none of these devices is this machine's, because the daemon governs another node.
bool are_of_another(const json& devices, const machine::Machine& machine) {
  return std::none_of(devices.begin(), devices.end(), [&](const json& device) {
    return std::any_of(machine.devices.begin(), machine.devices.end(),
                       [&](const machine::Device& own) { return own.uuid == device.at("uuid").get<std::string>(); });
  });
}

/// Returns true if a daemon that find() found governs another node than the one that --sim describes.
Result<bool> is_of_another(const Session& session, NodeClient& daemon) {
  if (!session.simulated || daemon.was_named()) return false;
  const auto asked_for = session.machine();
  if (!asked_for) return false;
  RATION_TRY(const auto devices, daemon.get("/api/v1/devices"));
  return are_of_another(devices, *asked_for);
}

}  // namespace

std::string snapshot_path(const SnapshotContent& content) {
  std::string query;
  if (content.processes != node::kAllProcesses) query += fmt::format("&processes={}", content.processes);
  if (!content.filter.empty()) query += "&filter=" + percent_encoded(content.filter);
  if (content.room_of) query += "&tenant=" + percent_encoded(*content.room_of);
  return query.empty() ? "/api/v1/snapshot" : "/api/v1/snapshot?" + query.substr(1);
}

Result<json> node_snapshot(const Session& session, const SnapshotContent& content) {
  RATION_TRY(auto daemon, NodeClient::find(session));
  if (daemon) {
    RATION_TRY(const bool other, is_of_another(session, *daemon));
    if (!other) return daemon->get(snapshot_path(content), content.passed_over);
  }
  if (session.simulated)  // fails if --sim describes no node
    RATION_TRY(session.machine());
  RATION_TRY(auto local, LocalAccess::open(session));
  return local->get(snapshot_path(content), content.passed_over);
}

}  // namespace ration::cli
