// Requests of cluster engines for claims: memory kept for the containers of one claim.
#pragma once

#include <string>

#include "node/events/event.hpp"
#include "node/promises/promises.hpp"

namespace ration::node {

/// Subjects of a request for a claim.
struct ClaimSubjects {
  const Moment& moment;
  ContainerClaims& claims;
  const DevicePromises& promises;
  std::string runtime_folder;  ///< folder in which device measurements are cached
};

/// Grants a claim and reserves the memory that it guarantees. An identical claim changes nothing; a guarantee of 0
/// reserves nothing. Returns the claim with sizes in whole granules. Fails with E1104, E1105, E1204, E1304, E1305,
/// E1407, E1408, E1409 or E1521, or as ContainerClaims::put() does.
[[nodiscard]] Result<ContainerClaim> grant_claim(const ClaimSubjects& node, ContainerClaim claim, Events& events);
/// Releases a claim; also succeeds if there is none. The claim's containers keep their limits. Fails with E1531.
[[nodiscard]] Result<void> release_claim(ContainerClaims& claims, const std::string& id, Events& events);

}  // namespace ration::node
