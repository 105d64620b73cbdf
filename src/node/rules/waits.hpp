// Charges that sleep until there is room, and get it. Before the snapshot.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/process.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class WaitRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;
  void forget(const std::string& path) override;

 private:
  struct Wait {
    std::uint64_t since_ns = 0, denials = 0, granted = 0;  // both as they were when it began
    std::uint32_t account = 0, waiting = 0;                // at most so many at once
    Bytes wanted, used, limit;
    std::vector<ProcessIdentity> processes;  // that were seen to wait
  };
  struct WaitsTold {
    std::uint64_t last_ns = 0;  // 0: never
    std::int64_t count = 0;     // of those since then
    std::uint64_t first_ns = 0;
  };
  std::unordered_map<std::string, WaitsTold> told_;  // by path
  std::unordered_map<std::string, Wait> waits_;      // by path: whose charges sleep
};

}  // namespace ration::node
