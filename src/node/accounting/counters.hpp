// Counters since the daemon's start, for the metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "node/events/event.hpp"
#include "node/queue/wait_histogram.hpp"
#include "node/snapshot/snapshot.hpp"

namespace ration::node {

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
  std::map<std::pair<std::string, std::string>, std::uint64_t> limit_changes;  ///< by tenant and actor
  std::map<std::string, std::uint64_t> violations;                             ///< by tenant
  std::uint64_t started_ns = 0, ticks = 0;
  double tick_seconds = 0;
  WaitHistogram denied_after;  ///< lengths of the waits that ended in a denial

  void count(const Events& events);
  /// Adds the byte-seconds of usage, limits and guarantees in `sample` over `seconds`.
  void count_time(const history::Sample& sample, double seconds, const Snapshot& now);
};

}  // namespace ration::node
