// What is there at this moment.
#include <fmt/format.h>

#include <chrono>

#include "http/asset.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/api/api.hpp"
#include "node/api/login_token.hpp"
#include "node/api/openapi.hpp"
#include "node/api/row_filter.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;
using nlohmann::json;

Response plain(const std::string& text, const char* type = "text/plain; charset=utf-8") {
  Response response;
  response.content_type = type;
  response.body = text;
  return response;
}

}  // namespace

void Api::install_now(http::Server& server) {
  server.route("GET", "/healthz", [](const Request&) { return plain("ok\n"); });
  server.route("GET", "/readyz", [this](const Request&) {
    if (host_.engine().snapshot().time_ns != 0) return plain("ok\n");
    return http::problem({"E1522", "the first tick is not over yet.", "Try again in a second.", 1}, 503);
  });
  server.route("GET", "/metrics", [this](const Request& request) {
    host_.tick_if_stale();
    const auto some = filtered(host_.engine().snapshot(), request, viewer_of(request.peer));
    if (!some) return http::problem(some.error());
    MetricsOptions options;
    options.processes = host_.engine().configuration().daemon.metrics_processes.value;
    options.queue_length = host_.leases().waiting();
    options.stream_clients = host_.stream().subscribers();
    options.queue_waits = host_.leases().waits();
    return plain(metrics_text(*some ? **some : host_.engine().snapshot(), host_.counters(), options),
                 "text/plain; version=0.0.4; charset=utf-8");
  });
  const http::Asset contract = http::make_asset("application/json", openapi_gzip(), true);
  for (const char* place : {"/openapi.json", "/api/v1/openapi.json"})
    server.route("GET", place, [contract](const Request& request) { return http::serve(contract, request); });
  server.route("GET", "/api/v1/session", [this](const Request& request) {
    const Viewer viewer = viewer_of(request.peer);
    json data{{"role", viewer.is_operator ? "operator" : "tenant"}, {"version", RATION_VERSION}};
    data["user"] = viewer.user ? json(machine::user_name(*viewer.user)) : json(nullptr);
    if (!viewer.user) data["user_na"] = "on TCP nobody is known by name";
    data["command_options"] = json::object();
    for (const auto& [verb, options] : host_.command_options())
      for (const auto& [name, value] : options) data["command_options"][verb].push_back(name + "=" + shell_word(value));
    return answer("session", data);
  });
  server.route("POST", "/api/v1/session", [this](const Request& request) {
    const auto body = body_of(request);
    const auto once = body ? text_field(*body, "token") : tl::unexpected(body.error());
    if (!once) return http::problem(once.error());
    const auto token = host_.log_in(*once);
    if (token) return answer("login", {{"token", *token}});
    return http::problem(
        {"E1518", "this link was used already, or is older than an hour", "ration dashboard   prints a new one", 5},
        401);
  });
  server.route("POST", "/api/v1/session/link", [this](const Request& request) {
    const std::string address = host_.dashboard_address();
    if (address.empty())
      return http::problem({"E1533", "the daemon listens on no port, so there is no dashboard.",
                            "listen = \"127.0.0.1:7077\" under [daemon] in ration.toml, then start it again", 3});
    if (!viewer_of(request.peer).is_operator)
      return http::problem({"E1502", "you may not make a link for operators.",
                            fmt::format("Open {}: it shows totals. Or ask root or a member of group ration.", address),
                            5});
    const auto expires = std::chrono::seconds(LoginTokens::kLifetime).count();
    return answer("dashboard", {{"url", host_.make_link()}, {"expires_seconds", expires}}, 201);
  });
  server.route("GET", "/api/v1/health", [this](const Request& request) {
    return answer("health", host_.health(viewer_of(request.peer).is_operator));
  });
  server.route_deferred(
      "GET", "/api/v1/stream",
      [this](const Request& request, const http::Responder& responder) {
        host_.stream().subscribe(request, responder);
      },
      http::Access::kSameOriginOnly);
}

}  // namespace ration::node
