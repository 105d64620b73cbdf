// Builds the accounting sample: who held how much at the latest tick.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "history/sample.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

class Sampler {
 public:
  /// Peaks and denials are those since the last sample, also of runs that are over by now.
  [[nodiscard]] history::Sample take(NodeState& state);

 private:
  [[nodiscard]] Bytes new_peak(const Workload& workload, std::uint32_t account, Bytes used);

  std::unordered_map<std::string, std::vector<Bytes>> peaks_;  // by path and account: as last recorded
};

}  // namespace ration::node
