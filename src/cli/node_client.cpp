#include "cli/node_client.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/read_json.hpp"
#include "config/configuration.hpp"
#include "node/snapshot_json.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

/// Whether somebody listens there. E1502: this user may not even look.
Result<bool> somebody_listens(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const FileDescriptor probe{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!probe) return false;
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  if (errno != EACCES && errno != EPERM) return false;
  const std::string folder = path.substr(0, path.rfind('/'));
  return fail("E1502", fmt::format("whether a daemon runs cannot be seen: {} may not be opened by this user.", path),
              fmt::format("sudo chmod 755 {}   or ask who runs the daemon: ls -ld {}", folder, folder), 5);
}

Result<json> data_of(Result<http::Answer> answer, std::span<const std::string_view> passed_over = {}) {
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->ok()) return tl::unexpected(http::error_of(*answer));
  json document = read_json(std::move(answer->body), passed_over);
  if (document.is_object() && document.contains("data")) return std::move(document["data"]);
  return fail("E1508", "the daemon's answer cannot be understood.", "ration doctor", 1);
}

}  // namespace

Result<std::optional<NodeClient>> NodeClient::find(const Session& session) {
  if (!session.socket.empty()) return NodeClient(session.socket, true);
  std::vector<std::string> candidates;
  if (const auto configuration = config::read_configuration();  // one that is wrong is the daemon's to reject
      configuration && !configuration->daemon.socket.origin.is_default())
    candidates.push_back(configuration->daemon.socket.value);
  if (const auto store = session.store()) candidates.push_back(store->folder() + "/ration.sock");
  // Wherever the books lie: they register there.
  candidates.emplace_back("/run/ration/ration.sock");
  for (const std::string& candidate : candidates) {
    const auto listens = somebody_listens(candidate);
    if (!listens) return tl::unexpected(listens.error());
    if (*listens) return NodeClient(candidate);
  }
  return std::nullopt;
}

Result<NodeClient> NodeClient::require(const Session& session) {
  auto found = find(session);
  if (!found) return tl::unexpected(found.error());
  if (*found) return std::move(**found);
  const auto store = session.store();
  return fail("E1501",
              fmt::format("the daemon is not running (no {}/ration.sock).", store ? store->folder() : "/run/ration"),
              "ration serve   in another terminal, or: ration service install --now", 3);
}

Result<json> NodeClient::get(const std::string& path, std::span<const std::string_view> passed_over) {
  return data_of(client_.get(path), passed_over);
}
Result<json> NodeClient::post(const std::string& path, const json& body) {
  return data_of(client_.post(path, body.dump(-1, ' ', false, json::error_handler_t::replace)));
}
Result<json> NodeClient::patch(const std::string& path, const json& body, const http::ExtraHeaders& headers) {
  return data_of(client_.patch(path, body.dump(-1, ' ', false, json::error_handler_t::replace), headers));
}
Result<json> NodeClient::put(const std::string& path, const json& body) {
  return data_of(client_.put(path, body.dump(-1, ' ', false, json::error_handler_t::replace)));
}

Result<json> NodeClient::remove(const std::string& path) {
  auto answer = client_.remove(path);
  if (answer && answer->status == 204) return json(nullptr);
  return data_of(std::move(answer));
}

Result<std::string> NodeClient::text(const std::string& path) {
  auto answer = client_.get(path);
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->ok()) return tl::unexpected(http::error_of(*answer));
  return std::move(answer->body);
}

Result<void> NodeClient::stream(const std::string& path, const std::function<bool(const http::StreamEvent&)>& taken) {
  return client_.stream(path, taken);
}

namespace {

/// Whether the workload runs on a device of that machine.
bool is_of(const node::Workload& workload, const machine::Machine& machine) {
  const auto& accounts = workload.book.accounts;
  return std::any_of(accounts.begin(), accounts.end(), [&](const auto& account) {
    return std::any_of(machine.devices.begin(), machine.devices.end(),
                       [&](const machine::Device& device) { return device.bytes == account.device; });
  });
}

/// Whether a daemon's snapshot is of another node than the one that was asked for.
bool is_of_another(const json& snapshot, const machine::Machine& machine) {
  const json& devices = snapshot.at("devices");
  return std::none_of(devices.begin(), devices.end(), [&](const json& device) {
    return std::any_of(machine.devices.begin(), machine.devices.end(),
                       [&](const machine::Device& own) { return own.uuid == device.at("uuid").get<std::string>(); });
  });
}

Result<DirectLook> look_at_books(const Session& session, const Result<machine::Machine>& machine) {
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  DirectLook look;
  if (session.simulated && machine)
    look.registry.set_node_rule(
        [machine = *machine](const node::Workload& workload) { return is_of(workload, machine); });
  if (auto good = look.registry.adopt(store->folder(), ::getuid()); !good) return tl::unexpected(good.error());
  look.registry.refresh();
  look.now = node::look(look.registry, machine, {}, 0);
  for (node::DeviceView& device : look.now.devices) node::note_promises(device, look.now.accounts, {});
  return look;
}

}  // namespace

std::string snapshot_path(std::size_t most_processes) {
  return most_processes == node::kAllProcesses ? "/api/v1/snapshot"
                                               : fmt::format("/api/v1/snapshot?processes={}", most_processes);
}

Result<DirectLook> look_directly(const Session& session) { return look_at_books(session, session.machine()); }

Result<json> node_snapshot(const Session& session, std::size_t most_processes,
                           std::span<const std::string_view> passed_over) {
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (*daemon) {
    auto told = (*daemon)->get(snapshot_path(most_processes), passed_over);
    if (!told || !session.simulated || (*daemon)->was_named()) return told;
    if (const auto asked_for = session.machine(); !asked_for || !is_of_another(*told, *asked_for)) return told;
  }
  const auto machine = session.machine();
  if (!machine && session.simulated) return tl::unexpected(machine.error());  // it was asked for
  const auto look = look_at_books(session, machine);
  if (!look) return tl::unexpected(look.error());
  const node::Viewer everything{true, ::getuid()};
  json devices = json::array();
  for (const auto& device : look->now.devices) devices.push_back(node::device_json(device));
  json data{{"devices", devices}, {"workloads", json::parse(node::rows_text(look->now, everything, most_processes))}};
  if (!machine)
    data["warnings"] = {{{"id", machine.error().id}, {"message", machine.error().what}, {"fix", machine.error().fix}}};
  return data;
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || std::strchr("-._~", letter) != nullptr)
      encoded += letter;
    else
      encoded += fmt::format("%{:02X}", byte);
  }
  return encoded;
}

}  // namespace ration::cli
