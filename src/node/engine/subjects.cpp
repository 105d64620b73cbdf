#include "node/engine/subjects.hpp"

#include "node/snapshot/config_subject.hpp"

namespace ration::node {
namespace {

std::string in(const std::string& folder, const char* file) { return folder.empty() ? "" : folder + "/" + file; }

std::unique_ptr<CheckpointJobs> jobs_of(NodeOptions& options) {
  if (options.checkpoint_jobs != nullptr) return std::move(options.checkpoint_jobs);
  return std::make_unique<CheckpointProcesses>("/proc/self/exe", options.driver_folder,
                                               in(options.state_folder, "checkpoint.lock"));
}

}  // namespace

Subjects::Subjects(NodeOptions& options)
    : tenants(in(options.state_folder, "tenants.json")),
      schedules(in(options.state_folder, "schedules.json")),
      claims(in(options.state_folder, "claims.json")),
      promises(tenants, claims),
      limits(in(options.state_folder, "limits.json"),
             {options.driver_folder, options.cgroup_of ? options.cgroup_of : cgroup_folder_of}, options.earlier,
             options.balances),
      residency(jobs_of(options), limits.limits, options.runtime_folder, options.simulated),
      recordings(in(options.state_folder, "recordings")) {}

std::vector<Message> Subjects::damages() const {
  std::vector<Message> found;
  for (const Message& text : {limits.limits.damage(), tenants.damage(), schedules.damage(), claims.damage()})
    if (!text.empty()) found.push_back(text);
  return found;
}

void Subjects::forget(const std::string& path) {
  limits.forget(path);
  residency.forget(path);
  recordings.forget(path);
}

}  // namespace ration::node
