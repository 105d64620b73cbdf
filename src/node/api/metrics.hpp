// The node in Prometheus' text format (version 0.0.4). Used by GET /metrics. Promises: base units, counters that only
// grow while the daemon runs; no pid and no command line in a label unless that was configured; what is not known has
// no sample.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "node/leases/wait_histogram.hpp"
#include "node/state/snapshot.hpp"

namespace ration::node {

/// What is counted rather than read, since the daemon started.
struct Counters {
  struct TenantOnGpu {
    std::string tenant;
    int gpu = 0;
    auto operator<=>(const TenantOnGpu&) const = default;
  };
  struct DenialKind {
    TenantOnGpu where;
    std::string reason;
    auto operator<=>(const DenialKind&) const = default;
  };
  struct ByteSeconds {
    double used = 0, limit = 0, guarantee = 0;
  };
  std::map<DenialKind, std::uint64_t> denied;
  std::map<TenantOnGpu, std::uint64_t> denied_bytes;
  std::map<TenantOnGpu, std::uint64_t> trimmed_bytes;
  std::map<TenantOnGpu, ByteSeconds> byte_seconds;
  std::map<std::pair<std::string, std::string>, std::uint64_t> limit_changes;  ///< tenant, by whom
  std::map<std::string, std::uint64_t> violations;                             ///< by tenant
  std::uint64_t ticks = 0;
  double tick_seconds = 0;
  WaitHistogram denied_after;  ///< of requests for memory that waited and were denied all the same
};

struct MetricsOptions {
  bool processes = false;             ///< a sample for each process, with its pid
  std::size_t most_processes = 1000;  ///< more are left out, and said to be
  std::size_t queue_length = 0, stream_clients = 0;
  WaitHistogram queue_waits;  ///< of leases that were granted
};

[[nodiscard]] std::string metrics_text(const Snapshot& snapshot, const Counters& counters,
                                       const MetricsOptions& options);

}  // namespace ration::node
