// Whom the rules of the configuration are matched with: who asks, and whose a workload is.
#pragma once

#include <string>

#include "config/match.hpp"
#include "http/message.hpp"
#include "node/books/registry.hpp"

namespace ration::node {

/// Of a peer on the socket (its uid is known). `labels`: `k=v,k=v`.
[[nodiscard]] config::Subject subject_of(const http::Peer& peer, const std::string& asked_tenant,
                                         const std::string& labels);

/// Of a workload's owner, without a tenant.
[[nodiscard]] config::Subject subject_of(const Workload& workload);

/// The path of its cgroup (v2); empty: it has none, or cannot be seen.
[[nodiscard]] std::string cgroup_of(std::int32_t pid);

/// The same as a folder, where cgroups usually are; empty: the root, or not known.
[[nodiscard]] std::string cgroup_folder_of(std::int32_t pid);

}  // namespace ration::node
