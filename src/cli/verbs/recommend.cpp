// `ration recommend`: suggests a limit for a workload from its recorded runs.
#include <fmt/format.h>

#include "cli/session/node_client.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {

Result<int> recommend(const Session& session, const std::string& workload) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  RATION_TRY(const auto found, daemon.get("/api/v1/recommendations/" + percent_encoded(workload)));
  if (session.format() == Format::kJson)
    session.print_json("recommend", found, {{"source", "daemon"}});
  else
    fmt::print("{}", session.hint(found.at("text").get<std::string>()));
  return 0;
}

}  // namespace ration::cli
