#include "node/http/audience.hpp"

#include <algorithm>
#include <string_view>

#include "base/say.hpp"
#include "http/problem.hpp"
#include "node/http/web_assets.hpp"
#include "node/request/request.hpp"

namespace ration::node {

constinit const FixedMessage kTotalsOnly = fixed<"unknown.totals_only">();

namespace {

struct PublicPath {
  std::string_view method, pattern;
};

/// The paths that every request may reach. Paths that return numbers answer such requests with totals only
/// (Viewer::totals_only).
constexpr PublicPath kPublic[] = {
    // State of the daemon, and description of the interface.
    {"GET", "/healthz"},
    {"GET", "/readyz"},
    {"GET", "/openapi.json"},
    {"GET", "/api/v1/openapi.json"},
    // Totals.
    {"GET", "/metrics"},
    {"GET", "/api/v1/snapshot"},
    {"GET", "/api/v1/stream"},
    {"GET", "/api/v1/devices"},
    {"GET", "/api/v1/devices/{gpu}"},
    {"GET", "/api/v1/health"},
    // Role of the client, and how to become an operator.
    {"GET", "/api/v1/session"},
    {"POST", "/api/v1/session"},
    {"POST", "/api/v1/session/link"},
    // Paths that identify their clients by other means: a container by its pid namespace, a user by the socket.
    {"GET", "/api/v1/workloads/{name}/explain"},
    {"POST", "/api/v1/workloads"},
    {"POST", "/api/v1/workloads/{name}/stop"},
    {"POST", "/api/v1/leases"},
    // Dashboard and documentation: pages without numbers, except the totals that the dashboard's page contains.
    {"GET", "/"},
    {"GET", "/timeline"},
    {"GET", "/workloads/{name}"},
    {"GET", "/map"},
    {"GET", "/recordings"},
    {"GET", "/recordings/{name}"},
    {"GET", "/events"},
    {"GET", "/tenants"},
    {"GET", "/reports"},
    {"GET", "/queue"},
    {"GET", "/health"},
    {"GET", "/docs"},
    {"GET", "/docs/{path...}"},
};

bool is_public(std::string_view method, std::string_view pattern) {
  if (method == "HEAD") method = "GET";
  const auto same = [&](const PublicPath& path) { return path.method == method && path.pattern == pattern; };
  if (std::any_of(std::begin(kPublic), std::end(kPublic), same)) return true;
  const auto files = assets();
  return method == "GET" &&
         std::any_of(files.begin(), files.end(), [&](const Asset& file) { return file.path == pattern; });
}

}  // namespace

http::Response totals_only() {
  return http::problem(
      {"E1502", "without a token this daemon shows totals only.",
       "ration dashboard   prints a link for operators; other clients send the header Authorization: Bearer TOKEN. "
       "anonymous = \"all\" under [http] in ration.toml shows everything to everybody",
       5});
}

std::optional<http::Response> withheld(const http::Request& request, const std::string& pattern) {
  if (!viewer_of(request.peer).totals_only || is_public(request.method, pattern)) return std::nullopt;
  return totals_only();
}

}  // namespace ration::node
