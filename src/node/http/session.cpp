// Serves the paths of the session: the role of the client, and how a browser becomes an operator's.
#include <fmt/format.h>

#include <chrono>

#include "base/message_json.hpp"
#include "base/say.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/http/api.hpp"

namespace ration::node {

using http::Request;
using http::Response;
using nlohmann::json;

void Api::install_session() {
  server_.route("GET", "/api/v1/session", [this](const Request& request) {
    const Viewer viewer = viewer_of(request.peer);
    json data{{"role", viewer.is_operator   ? "operator"
                       : viewer.totals_only ? "anonymous"
                                            : "tenant"},
              {"version", RATION_VERSION}};
    data["user"] = viewer.user ? json(machine::user_name(*viewer.user)) : json(nullptr);
    if (!viewer.user) put_message(data, "user_na", fixed<"unknown.no_user_on_tcp">());
    data["command_options"] = json::object();
    // Leaves out the options, which contain paths of this machine, for viewers who see totals only.
    for (const auto& [verb, options] : viewer.totals_only ? CommandOptions{} : host_.command_options())
      for (const auto& [name, value] : options) data["command_options"][verb].push_back(name + "=" + shell_word(value));
    return answer("session", data);
  });
  server_.route("POST", "/api/v1/session", [this](const Request& request) -> Result<Response> {
    RATION_TRY(const auto body, body_of(request));
    RATION_TRY(const auto once, text_field(body, "token"));
    if (login_tokens_.use(once, LoginTokens::Clock::now())) return answer("login", {{"token", server_.token()}});
    return http::problem(
        {"E1518", "this link was used already, or is older than an hour", "ration dashboard   prints a new one", 5},
        401);
  });
  server_.route("POST", "/api/v1/session/link", [this](const Request& request) {
    const std::string address = dashboard_address();
    if (address.empty())
      return http::problem({"E1533", "the daemon listens on no port, so there is no dashboard.",
                            "listen = \"127.0.0.1:7077\" under [daemon] in ration.toml, then start it again", 3});
    if (!viewer_of(request.peer).is_operator)
      return http::problem({"E1502", "you may not make a link for operators.",
                            fmt::format("Open {}: it shows totals. Or ask root or a member of group ration.", address),
                            5});
    const auto expires = std::chrono::seconds(LoginTokens::kLifetime).count();
    return answer("dashboard", {{"url", make_link()}, {"expires_seconds", expires}}, 201);
  });
}

std::string Api::dashboard_address() const {
  if (server_.tcp_port() == 0) return {};
  const std::string& listen = server_.options().tcp_address;
  return fmt::format("http://{}:{}", listen.substr(0, listen.rfind(':')), server_.tcp_port());
}

std::string Api::make_link() {
  return fmt::format("{}/?token={}", dashboard_address(), login_tokens_.make(LoginTokens::Clock::now()));
}

Message Api::port_problem() const {
  const std::string& problem = server_.tcp_problem();
  if (problem.empty()) return {};
  return server_.tcp_port() != 0 ? say<"daemon.other_port">("problem"_is(problem), "address"_is(dashboard_address()))
                                 : say<"daemon.no_port">("problem"_is(problem));
}

}  // namespace ration::node
