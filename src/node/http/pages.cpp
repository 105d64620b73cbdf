// Serves the dashboard. The page itself contains the current numbers, so that a person can read them before scripts
// run, or without scripts.
#include <fmt/format.h>

#include "base/units.hpp"
#include "history/export/cells.hpp"
#include "http/asset.hpp"
#include "http/problem.hpp"
#include "http/static_folder.hpp"
#include "node/http/api.hpp"
#include "node/http/web_assets.hpp"

namespace ration::node {
namespace {

using http::Request;
using http::Response;

constexpr const char* kPolicy =
    "default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The policy for pages of the documentation, which contain inline scripts; none of their content comes from a request.
constexpr const char* kDocumentationPolicy =
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

void protect(Response& response, const char* policy = kPolicy) {
  response.headers.emplace_back("Content-Security-Policy", policy);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
}

std::string first_frame(const Snapshot& now, const Viewer& viewer) {
  using history::html_text;
  std::string html =
      "<table><caption>Now</caption><thead><tr><th>GPU</th><th>Name</th><th>Used</th><th>Total</th></tr></"
      "thead><tbody>";
  for (const DeviceView& view : now.devices)
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", view.device.index,
                        html_text(view.device.name),
                        view.used() ? format_size(*view.used()) : "n/a (the driver does not report it)",
                        format_size(view.device.total));
  if (viewer.totals_only) return html + "</tbody></table>";
  html +=
      "</tbody></table><table><thead><tr><th>Workload</th><th>GPU</th><th>Used</th><th>Limit</th><th>Denied</th></tr></"
      "thead><tbody>";
  for (const AccountView& account : now.accounts)
    html +=
        fmt::format("<tr><td>{}/{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", html_text(account.tenant),
                    html_text(account.workload), account.gpu ? std::to_string(*account.gpu) : "n/a",
                    format_size(account.used), format_size(account.limit), account.denials);
  return html + "</tbody></table>";
}

}  // namespace

void Api::install_pages() {
  for (const Asset& asset : assets()) {
    const std::string path(asset.path);
    if (path == "/index.html") {
      const auto page = [this, text = std::string(asset.text)](const Request& request) {
        constexpr std::string_view kMark = "<!--SNAPSHOT-->";
        Response response;
        response.content_type = "text/html; charset=utf-8";
        response.body = text;
        if (const std::size_t at = text.find(kMark); at != std::string::npos)
          response.body.replace(at, kMark.size(), first_frame(host_.engine().snapshot(), viewer_of(request.peer)));
        protect(response);
        return response;
      };
      for (const char* route : {"/", "/timeline", "/workloads/{name}", "/map", "/recordings", "/recordings/{name}",
                                "/events", "/tenants", "/reports", "/queue", "/health"})
        server_.route("GET", route, page);
      continue;
    }
    http::Asset served{std::string(asset.content_type),
                       {reinterpret_cast<const char*>(asset.gzip.data()), asset.gzip.size()},
                       true,
                       asset.immutable ? "public, max-age=31536000, immutable" : "no-cache",
                       std::string(asset.etag)};
    server_.route("GET", path, [served](const Request& request) {
      Response response = http::serve(served, request);
      protect(response);
      return response;
    });
  }
}

void Api::install_documentation(const std::string& folder) {
  const auto pages = std::make_shared<const http::StaticFolder>(folder);
  const auto serve = [pages](const Request& request) {
    const auto rest = request.captures.find("path");
    const std::string path = rest == request.captures.end() ? "" : rest->second;
    Response response;
    if (pages->empty()) {
      response = http::problem({"E1511", "the documentation is not installed as pages",
                                "Install ration's package, or make them: ./dev docs", 2},
                               404);
    } else if (path.empty()) {  // links between pages are relative
      response.status = 307;
      response.headers.emplace_back("Location", "/docs/index.html");
    } else {
      response = pages->serve(path, request);
    }
    protect(response, kDocumentationPolicy);
    return response;
  };
  server_.route("GET", "/docs", serve);
  server_.route("GET", "/docs/{path...}", serve);
}

}  // namespace ration::node
