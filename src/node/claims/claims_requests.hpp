// Claims of engines that place work on several machines: what is kept for their containers.
#pragma once

#include <string>

#include "node/events/event.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Keeps the claim's memory from others from now on; the same claim again changes nothing. A device
/// without a guarantee is guaranteed nothing beyond what is free. Returns the claim with sizes in whole granules.
/// E1104 E1105 E1204 E1304 E1305 E1407 E1408 E1409 E1521, and those of ContainerClaims::put().
[[nodiscard]] Result<ContainerClaim> grant_claim(NodeState& state, ContainerClaim wish, Events& events);
/// Fine where there is no such claim. Its containers keep their limits. E1531.
[[nodiscard]] Result<void> return_claim(NodeState& state, const std::string& id, Events& events);

}  // namespace ration::node
