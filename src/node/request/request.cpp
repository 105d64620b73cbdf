#include "node/request/request.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/time.hpp"
#include "machine/process_origin.hpp"
#include "machine/user_names.hpp"
#include "node/request/route_host.hpp"

namespace ration::node {

using nlohmann::json;

Viewer viewer_of(const http::Peer& peer) {
  Viewer viewer;
  viewer.user = peer.uid;
  // A client that is root inside a container with the socket is root of that container only.
  const bool is_elsewhere = peer.pid && machine::is_in_another_namespace(*peer.pid);
  viewer.is_operator = peer.token_accepted || (peer.uid && !is_elsewhere && machine::is_operator(*peer.uid));
  viewer.totals_only = !viewer.user && !viewer.is_operator && !peer.sees_all;
  return viewer;
}

http::Response answer(const char* source, const std::string& schema, const json& data, int status) {
  return answer_text(source, schema, data.dump(-1, ' ', false, json::error_handler_t::replace), status);
}

http::Response answer_text(const char* source, const std::string& schema, const std::string& data, int status) {
  const json document{{"schema", "ration." + schema + "/1"},
                      {"time", utc(unix_time_ns())},
                      {"host", machine::host_name()},
                      {"source", source},
                      {"warnings", json::array()}};
  http::Response response;
  response.status = status;
  response.body = document.dump(-1, ' ', false, json::error_handler_t::replace);
  response.body.pop_back();
  response.body += R"(,"data":)";
  response.body += data;
  response.body += "}";
  return response;
}

Caller caller_of(const http::Request& request) {
  const Viewer viewer = viewer_of(request.peer);
  Caller caller;
  caller.user = viewer.user;
  caller.is_operator = viewer.is_operator;
  caller.name = viewer.user ? machine::user_name(*viewer.user) : viewer.is_operator ? "token" : "nobody";
  return caller;
}

void tick_before_change(RouteHost& host, const http::Request& request) {
  if (viewer_of(request.peer).is_operator)
    host.tick_now();
  else
    host.tick_if_stale();
}

tl::unexpected<Error> bad_parameter(const std::string& name, const std::string& value, const std::string& fix) {
  return fail("E1527", fmt::format("{}={} cannot be understood.", name, value), fix, 2);
}

bool is_dry_run(const http::Request& request) {
  const std::string* dry = request.parameter("dry_run");
  return dry != nullptr && *dry != "0" && *dry != "false";
}

Result<json> body_of(const http::Request& request) {
  json body = json::parse(request.body, nullptr, false);
  if (body.is_object()) return body;
  return fail("E1521", "the body is not a JSON object.",
              R"(curl … -H 'Content-Type: application/json' -d '{"limit":"4GiB"}')", 2);
}

Result<std::string> text_field(const json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return std::string{};
  if (found->is_string()) return found->get<std::string>();
  return fail("E1521", fmt::format("'{}' is not a string.", name), fmt::format(R"("{}": "…")", name), 2);
}

Result<std::vector<std::string>> list_field(const json& body, const char* name) {
  std::vector<std::string> texts;
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return texts;
  const bool good =
      found->is_array() && std::all_of(found->begin(), found->end(), [](const json& each) { return each.is_string(); });
  if (!good)
    return fail("E1521", fmt::format("'{}' is not a list of strings.", name), fmt::format(R"("{}": ["…"])", name), 2);
  return found->get<std::vector<std::string>>();
}

Result<bool> flag_field(const json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  return fail("E1521", fmt::format("'{}' is neither true nor false.", name), fmt::format(R"("{}": true)", name), 2);
}

Result<std::optional<std::int64_t>> number_field(const json& body, const char* name, std::int64_t least,
                                                 std::int64_t most) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return std::nullopt;
  // The JSON library counts a number above every std::int64_t as an integer too.
  const bool whole = found->is_number_unsigned() ? found->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                                 : found->is_number_integer();
  if (whole && found->get<std::int64_t>() >= least && found->get<std::int64_t>() <= most)
    return found->get<std::int64_t>();
  return fail("E1521", fmt::format("'{}' is not an integer from {} to {}.", name, least, most),
              fmt::format(R"("{}": {})", name, std::max<std::int64_t>(least, 1)), 2);
}

}  // namespace ration::node
