// `ration dashboard`: a fresh link of the daemon that runs, for whoever did not see its start (systemd's journal gets
// none). It is printed and no browser is started: a command line with the link in it could be read by every user.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/session/node_client.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {

Result<int> dashboard(const Session& session) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  RATION_TRY(const auto link, daemon.post("/api/v1/session/link", nlohmann::json::object()));
  if (session.format() == Format::kJson) {
    session.print_json("dashboard", link, {{"source", "daemon"}});
    return 0;
  }
  fmt::print("{}\n", link.at("url").get<std::string>());
  if (::isatty(STDOUT_FILENO) != 0)
    fmt::print(stderr, "Works once, within an hour: the first who opens it may change limits.\n");
  return 0;
}

}  // namespace ration::cli
