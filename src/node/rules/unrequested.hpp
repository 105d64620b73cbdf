// What the driver holds for a workload beyond what its book has: loaded code, the local memory of kernels, contexts
// that no hook saw. No request of the program tells of it, so it is found by comparison, and its limit binds it from
// then on.
#pragma once

#include <map>

#include "node/decisions/settled.hpp"
#include "node/rules/rule.hpp"

namespace ration::node {

class UnrequestedRule final : public Rule {
 public:
  void run(NodeState& state, Events& events) override;

 private:
  struct Unrequested {
    Settled settled;
    std::uint64_t times_emptied = 0;  // of the book, when it was found
  };
  std::map<std::pair<std::string, std::uint32_t>, Unrequested> unrequested_;  // by path and account
};

}  // namespace ration::node
