#include "http/access.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "http/grammar.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

std::optional<Response> host_refused(const Request& request, const AccessRules& rules) {
  const std::string_view host = request.headers.get("host");
  const auto name = host_name(host);
  // Rejects a foreign name that was made to point to this machine (DNS rebinding), because the list lacks it.
  const bool ours =
      name && (*name == request.peer.local_address || *name == "localhost" || *name == "127.0.0.1" || *name == "::1" ||
               std::find(rules.host_names.begin(), rules.host_names.end(), *name) != rules.host_names.end());
  if (ours) return {};
  return problem({"E1513", fmt::format("this daemon does not answer for the host '{}'", host),
                  "Use its address: 127.0.0.1, localhost, or the address in [daemon] listen", 5},
                 421);
}

std::optional<Response> origin_refused(const Request& request) {
  const std::string* origin = request.headers.find("origin");
  if (origin == nullptr || same_origin(*origin, request.headers.get("host"))) return {};
  return problem({"E1514", fmt::format("a page of {} may not send this request to the daemon", *origin),
                  "Open the dashboard of this daemon itself", 5},
                 403);
}

std::optional<Response> content_refused(const Request& request) {
  const std::string* type = request.headers.find("content-type");
  if (request.body.empty() && type == nullptr) return {};
  // Requires JSON, because any page can make a browser send a form, which has another type, without a preflight
  // request.
  if (type != nullptr && media_type(*type) == "application/json") return {};
  return problem(
      {"E1515", "the body must be JSON, with a header that says so", "Send Content-Type: application/json", 2}, 415);
}

}  // namespace

std::optional<Response> refused(Request& request, const AccessRules& rules, bool same_origin_only) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (request.peer.kind == Peer::Kind::kTcp) {
    if (auto response = host_refused(request, rules)) return response;
    if (!reads || same_origin_only)
      if (auto response = origin_refused(request)) return response;
    if (!reads)
      if (auto response = content_refused(request)) return response;
  }
  const auto token = bearer_token(request.headers.get("authorization"));
  if (!token || rules.token.empty()) return {};
  if (request.headers.count("authorization") == 1 && same_secret(*token, rules.token)) {
    request.peer.token_accepted = true;
    return {};
  }
  auto response = problem({"E1518", "the token is not the one in the daemon's token file",
                           "Send the content of that file: Authorization: Bearer TOKEN", 5},
                          401);
  response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"ration\"");
  return response;
}

}  // namespace ration::http
