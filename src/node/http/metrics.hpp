// The node in Prometheus' text format (version 0.0.4), for GET /metrics.
// Promises: base units; counters only grow while the daemon runs; no pid or command line in a label unless configured;
// an unknown number has no sample.
#pragma once

#include <map>
#include <string>

#include "node/accounting/counters.hpp"
#include "node/http/health.hpp"
#include "node/promises/promises.hpp"

namespace ration::node {

struct MetricsOptions {
  bool totals_only = false;           ///< true if no sample may name a tenant or a workload
  bool processes = false;             ///< true if each process has a sample, with its pid
  std::size_t most_processes = 1000;  ///< the most samples of processes; further ones are omitted and counted
  std::size_t most_workloads = 1000;  ///< the most samples of workloads; further ones are omitted and counted
  TenantShares tenant_shares;         ///< the limits and guarantees of the tenants themselves
  std::vector<std::string> tenants;   ///< the configured tenants
  std::size_t queue_length = 0, stream_clients = 0;
  std::map<std::string, Bytes> queue_bytes;  ///< bytes that leases wait for, by tenant
  LastReload reload;
  WaitHistogram queue_waits;  ///< waits of granted leases
};

[[nodiscard]] std::string metrics_text(const Snapshot& snapshot, const Counters& counters,
                                       const MetricsOptions& options);

}  // namespace ration::node
