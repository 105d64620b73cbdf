// `ration dashboard`: prints a new link to the running daemon's dashboard, since systemd's journal shows none. The verb
// starts no browser, because every user could read the link in the browser's command line.
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
    fmt::print(stderr, "The link works once, within an hour. The browser that opens it can change limits.\n");
  return 0;
}

}  // namespace ration::cli
