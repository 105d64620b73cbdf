// Describes a client or a workload so that the rules of the configuration can be matched against it.
#pragma once

#include <string>

#include "config/match.hpp"
#include "http/message.hpp"
#include "node/books/registry.hpp"

namespace ration::node {

/// Describes a peer on the socket, whose uid is known. `labels`: `k=v,k=v`.
[[nodiscard]] config::Subject subject_of(const http::Peer& peer, const std::string& asked_tenant,
                                         const std::string& labels);

/// Describes a workload by its owner, without its tenant.
[[nodiscard]] config::Subject subject_of(const Workload& workload);

/// Returns the path of the process's cgroup (v2); empty: none, or invisible.
[[nodiscard]] std::string cgroup_of(std::int32_t pid);

/// Returns that cgroup's folder under /sys/fs/cgroup; empty: the root cgroup, or unknown.
[[nodiscard]] std::string cgroup_folder_of(std::int32_t pid);

}  // namespace ration::node
