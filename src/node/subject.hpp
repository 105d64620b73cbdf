// Who asks, as the configuration's rules want to know them. Used where workloads register and leases are asked for.
#pragma once

#include <string>

#include "node/http/message.hpp"
#include "policy/configuration_match.hpp"

namespace ration::node {

/// Of a peer on the socket (its uid is known). `labels`: `k=v,k=v`.
[[nodiscard]] policy::Subject subject_of(const http::Peer& peer, const std::string& asked_tenant,
                                         const std::string& labels);

}  // namespace ration::node
