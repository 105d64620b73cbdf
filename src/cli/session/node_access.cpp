#include "cli/session/node_access.hpp"

#include <fmt/format.h>

#include <cctype>

#include "admission/slices.hpp"
#include "base/read_json.hpp"
#include "base/strings.hpp"
#include "cli/session/node_client.hpp"

namespace ration::cli {

using nlohmann::json;

Result<json> data_of(std::string document, std::span<const std::string_view> passed_over) {
  json read = read_json(std::move(document), passed_over);
  if (read.is_object() && read.contains("data")) return std::move(read["data"]);
  return fail("E1508", "the daemon's answer cannot be understood.", "ration doctor", 1);
}

Result<std::unique_ptr<NodeAccess>> NodeAccess::open(const Session& session) {
  RATION_TRY(auto daemon, NodeClient::find(session));
  if (daemon) return std::make_unique<NodeClient>(std::move(*daemon));
  return LocalAccess::open(session);
}

json NodeAccess::source() const { return is_daemon() ? json{{"source", "daemon"}} : json::object(); }

Result<std::unique_ptr<LocalAccess>> LocalAccess::open(const Session& session) {
  auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  node::NodeOptions options;
  options.simulated = session.simulated;
  options.balances = false;
  options.query_devices = [session] { return session.machine(); };
  options.slices = [store = *store] { return admission::read_slices(store).value_or(std::vector<admission::Slice>{}); };
  RATION_TRY(auto node, node::LocalNode::open(std::move(options), std::move(*store), session.simulated));
  return std::unique_ptr<LocalAccess>(new LocalAccess(std::move(node)));
}

namespace {

Result<json> read_answer(http::Response response, std::span<const std::string_view> passed_over = {}) {
  if (response.status >= 200 && response.status < 300) return data_of(std::move(response.body), passed_over);
  return tl::unexpected(http::error_of({response.status, std::move(response.body)}));
}

}  // namespace

Result<json> LocalAccess::get(const std::string& path, std::span<const std::string_view> passed_over) {
  return read_answer(node_->handle("GET", path, ""), passed_over);
}

Result<json> LocalAccess::patch(const std::string& path, const json& body, const http::ExtraHeaders& headers) {
  http::Headers lines;
  for (const auto& [name, value] : headers) lines.add(lower(name), value);
  return read_answer(node_->handle("PATCH", path, body.dump(-1, ' ', false, json::error_handler_t::replace), lines));
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(letter) != std::string_view::npos)
      encoded += letter;
    else
      encoded += fmt::format("%{:02X}", byte);
  }
  return encoded;
}

}  // namespace ration::cli
