// Serves the paths about the present that node_routes.cpp does not serve.
#include "http/asset.hpp"
#include "http/problem.hpp"
#include "node/http/api.hpp"
#include "node/http/openapi.hpp"
#include "node/http/row_filter.hpp"

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

void Api::install_now() {
  server_.route("GET", "/healthz", [](const Request&) { return plain("ok\n"); });
  server_.route("GET", "/readyz", [this](const Request&) {
    if (host_.engine().snapshot().time_ns != 0) return plain("ok\n");
    return http::problem({"E1522", "the first tick is not over yet.", "Try again in a second.", 1}, 503);
  });
  server_.route("GET", "/metrics", [this](const Request& request) -> Result<Response> {
    host_.tick_if_stale();
    const Viewer viewer = viewer_of(request.peer);
    RATION_TRY(const auto some, filtered(host_.engine().snapshot(), request, viewer));
    MetricsOptions options;
    options.totals_only = viewer.totals_only;
    options.processes = host_.engine().configuration().daemon.metrics_processes.value;
    options.tenant_shares = host_.subjects().promises.shares(host_.moment());
    for (const TenantStatus& tenant : host_.subjects().tenants.all()) options.tenants.push_back(tenant.name);
    options.queue_length = host_.leases().queue().waiting();
    options.queue_bytes = host_.leases().queue().waiting_bytes();
    options.stream_clients = stream_.subscribers();
    options.reload = host_.last_reload();
    options.queue_waits = host_.leases().waits();
    return plain(metrics_text(some ? *some : host_.engine().snapshot(), host_.recorder().counters(), options),
                 "text/plain; version=0.0.4; charset=utf-8");
  });
  const http::Asset contract = http::make_asset("application/json", openapi_gzip(), true);
  for (const char* path : {"/openapi.json", "/api/v1/openapi.json"})
    server_.route("GET", path, [contract](const Request& request) { return http::serve(contract, request); });
  server_.route("GET", "/api/v1/health", [this](const Request& request) {
    return answer("health", health_json(health(), viewer_of(request.peer)));
  });
  server_.route_deferred(
      "GET", "/api/v1/stream",
      [this](const Request& request, const http::Responder& responder) { stream_.subscribe(request, responder); },
      http::Access::kSameOriginOnly);
}

Health Api::health() {
  const http::ServerOptions& endpoints = server_.options();
  return {host_.moment(),
          host_.recorder().counters(),
          host_.recorder().status(),
          stream_.subscribers(),
          server_.connections(),
          endpoints.socket_path,
          unreachable_,
          endpoints.tcp_address.empty() ? std::nullopt : std::optional(dashboard_address()),
          port_problem(),
          host_.engine().options().state_folder,
          host_.last_reload()};
}

}  // namespace ration::node
