// GET /api/v1/health: how the daemon itself fares. Used by the paths of the daemon.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "node/accounting/recorder.hpp"
#include "node/snapshot/snapshot_json.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

struct Health {
  const NodeState& state;
  const Counters& counters;
  Recorder::Status recorded;
  std::size_t stream_clients = 0, connections = 0;
  std::string socket;
  std::string unreachable;             ///< why nobody reaches it there; empty: it is in its place
  std::optional<std::string> address;  ///< of the dashboard, empty where it got no port; absent: none is wanted
  std::string port_problem;            ///< why it is not the port that was wanted; empty: it is
};

/// Without a name: whether anything is wrong, and neither places nor processes nor counts. Operators see where the
/// books stand, too, which tells names of users.
[[nodiscard]] nlohmann::json health_json(const Health& health, const Viewer& viewer);

}  // namespace ration::node
