// The node in Prometheus' text format (version 0.0.4). Used by GET /metrics. Promises: base units, counters that only
// grow while the daemon runs; no pid and no command line in a label unless that was configured; what is not known has
// no sample.
#pragma once

#include <map>
#include <string>

#include "node/accounting/counters.hpp"

namespace ration::node {

struct MetricsOptions {
  bool totals_only = false;           ///< no sample that names a tenant or a workload
  bool processes = false;             ///< a sample for each process, with its pid
  std::size_t most_processes = 1000;  ///< more are left out, and said to be
  std::size_t most_workloads = 1000;  ///< as well
  std::size_t queue_length = 0, stream_clients = 0;
  std::map<std::string, Bytes> queue_bytes;  ///< that leases wait for, by tenant
  WaitHistogram queue_waits;                 ///< of leases that were granted
};

[[nodiscard]] std::string metrics_text(const Snapshot& snapshot, const Counters& counters,
                                       const MetricsOptions& options);

}  // namespace ration::node
