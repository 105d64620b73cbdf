// Makes the accounting sample: bytes of each account at the latest tick.
#pragma once

#include "history/sample.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// Returns the sample of the latest tick, including `ended`, the workloads that ended in that tick.
[[nodiscard]] history::Sample sample_of(const Moment& moment, const std::vector<Workload>& ended);

}  // namespace ration::node
