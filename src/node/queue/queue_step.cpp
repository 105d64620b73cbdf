#include "node/queue/queue_step.hpp"

#include <utility>

#include "node/limits/promises.hpp"
#include "node/residency/residency.hpp"

namespace ration::node {

bool step_queue(NodeState& state, Leases& leases, Events& events) {
  const ResidencyChanges changes = std::exchange(state.residency_changes, {});
  for (const std::string& path : changes.suspended) leases.suspend(path);
  for (const auto& [path, reason, confirmed] : changes.resume_requests)
    leases.requeue(path, reason, state.snapshot, state.now_ns, confirmed);
  for (Event& event : leases.step(state.snapshot, state.now_ns, shares(state))) events.push_back(std::move(event));
  const std::vector<std::string> resumable = leases.take_resumable();
  for (const std::string& path : resumable) approve_resume(state, path);
  return !resumable.empty();
}

}  // namespace ration::node
