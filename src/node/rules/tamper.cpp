#include "node/rules/tamper.hpp"

namespace ration::node {

void TamperRule::run(NodeState& state, Events& events) {
  std::vector<std::string> failed;
  for (const Alteration& altered : state.limits.enforce(state.registry, failed)) {
    const Workload& workload = state.registry.workloads().at(altered.path);
    events.push_back(tampered_event(about(state, workload, workload.book.accounts[altered.account].device),
                                    altered.is_guarantee, altered.found, altered.owned));
  }
  for (const std::string& book : failed) events.push_back(limit_unwritable_event(book));
}

}  // namespace ration::node
