// GET /api/v1/health: the state of the daemon itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "node/accounting/recorder.hpp"
#include "node/snapshot/snapshot_json.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// The outcome of the last time that the daemon read the configuration.
struct LastReload {
  Message rejected;               ///< why the configuration was rejected; empty if it was accepted
  std::uint64_t accepted_ns = 0;  ///< time at which a configuration was last accepted
};

struct Health {
  const Moment& moment;
  const Counters& counters;
  Recorder::Status recorded;
  std::size_t stream_clients = 0, connections = 0;
  std::string socket;
  Message unreachable;                 ///< why clients cannot reach `socket`; empty if they can
  std::optional<std::string> address;  ///< dashboard address; empty if its port is taken; absent if not requested
  Message port_problem;                ///< why the port is not the requested one; empty if it is
  std::string state_folder;            ///< folder of the database; empty if nothing is saved
  LastReload reload = {};
};

/// Renders the state. Anonymous viewers see only problems, without places, processes or counts. Operators also see the
/// folders of the books, which contain user names, and the folder of the database.
[[nodiscard]] nlohmann::json health_json(const Health& health, const Viewer& viewer);

}  // namespace ration::node
