// What is done about processes that nobody governs, as the configuration says: told, warned of, or ended after a grace
// time.
#pragma once

#include <map>

#include "base/file.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class UngovernedPolicyRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;

 private:
  struct Process {
    FileDescriptor handle;  // of the process; none: it cannot be had
    std::uint64_t seen_ns = 0, told_ns = 0;
    bool killed = false;
  };
  std::map<std::int32_t, Process> processes_;  // by pid: ungoverned, and what was done about it
};

}  // namespace ration::node
