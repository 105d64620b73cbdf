#include "node/queue/queue_step.hpp"

namespace ration::node {

bool step_queue(const Moment& moment, const ResidencyChanges& changes, const QueueSubjects& queue, Events& events) {
  for (const std::string& path : changes.suspended) queue.leases.suspend(path);
  for (const auto& [path, reason, confirmed] : changes.resume_requests)
    queue.leases.requeue(path, reason, moment.snapshot, moment.now_ns, confirmed);
  for (Event& event : queue.leases.step(moment.snapshot, moment.now_ns, queue.promises.shares(moment)))
    events.push_back(std::move(event));
  const std::vector<std::string> resumable = queue.leases.take_resumable();
  for (const std::string& path : resumable) queue.residency.approve_resume(moment, path);
  return !resumable.empty();
}

}  // namespace ration::node
