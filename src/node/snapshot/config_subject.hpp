// Describes a client or a workload so that the rules of the configuration can be matched against it.
#pragma once

#include <string>

#include "config/match.hpp"
#include "http/message.hpp"
#include "node/books/registry.hpp"

namespace ration::node {

/// Describes a peer on the socket, whose uid is known. `labels` has the form `k=v,k=v`.
[[nodiscard]] config::Subject subject_of(const http::Peer& peer, const std::string& asked_tenant,
                                         const std::string& labels);

/// Describes a workload by its owner, without its tenant.
[[nodiscard]] config::Subject subject_of(const Workload& workload);

/// Returns the path of the process's cgroup (v2); empty if it has none, or it is invisible.
[[nodiscard]] std::string cgroup_of(std::int32_t pid);

/// Returns the folder of the process's cgroup under /sys/fs/cgroup; empty for the root cgroup, or if unknown.
[[nodiscard]] std::string cgroup_folder_of(std::int32_t pid);

}  // namespace ration::node
