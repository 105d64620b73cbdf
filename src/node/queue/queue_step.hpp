// The queue's part of a tick, after the rules. Used by the daemon.
#pragma once

#include <cstdint>

#include "node/queue/leases.hpp"
#include "node/residency/residency.hpp"
#include "node/tick/effects.hpp"

namespace ration::node {

/// Subjects of the queue.
struct QueueSubjects {
  Leases& leases;
  Residency& residency;
  const DevicePromises& promises;
};
/// Passes the suspensions and resume requests of this tick to the queue, and grants what fits. Returns true if a
/// suspended workload may resume from now on, so that the next tick should come at once.
[[nodiscard]] bool step_queue(const Moment& moment, const ResidencyChanges& changes, const QueueSubjects& queue,
                              Events& events);

}  // namespace ration::node
